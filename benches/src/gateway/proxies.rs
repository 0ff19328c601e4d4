//! The gateways, each a process of its own that ends with its value.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::load::MODEL;

/// A gateway that runs.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) port: u16,
}

impl Proxy {
    /// `foreword serve` over an empty folder: the program that `FOREWORD_BIN` names.
    pub(crate) async fn foreword(provider: u16, folder: &Path) -> Self {
        let vault = folder.join("vault");
        fs::create_dir_all(&vault).unwrap();
        let port = free_port();
        let program = std::env::var("FOREWORD_BIN").expect("FOREWORD_BIN names the program to measure");
        let mut command = Command::new(program);
        command.arg("serve").arg(&vault).args(["--port", &port.to_string(), "--no-auth"]);
        let config = folder.join("config.toml");
        fs::write(
            &config,
            format!("[providers.openai]\nbase_url = \"http://127.0.0.1:{provider}/v1\"\ndialect = \"openai-chat\"\n"),
        )
        .unwrap();
        command.env("FOREWORD_CONFIG", config).env("OPENAI_API_KEY", "none");
        command.env("FOREWORD_STATE", folder.join("state")).env("FOREWORD_CACHE", folder.join("cache"));
        Self::start(command, port, "/api/v1/health").await.expect("foreword serve did not start")
    }

    /// The proxy of `LiteLLM`, in the Python that `FOREWORD_LITELLM` names.
    pub(crate) async fn litellm(provider: u16, folder: &Path) -> Option<Self> {
        let python = std::env::var_os("FOREWORD_LITELLM")?;
        let port = free_port();
        let config = folder.join("litellm.yaml");
        let text = format!(
            "model_list:\n  - model_name: {MODEL}\n    litellm_params:\n      model: openai/{MODEL}\n      api_base: http://127.0.0.1:{provider}/v1\n      api_key: none\n\
             litellm_settings:\n  telemetry: false\n  num_retries: 0\ngeneral_settings:\n  disable_spend_logs: true\n"
        );
        fs::write(&config, text).unwrap();
        let mut command = Command::new(Path::new(&python).with_file_name("litellm"));
        command.arg("--config").arg(&config).args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.env("LITELLM_LOG", "ERROR").env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_MODE", "PRODUCTION");
        Self::start(command, port, "/health/liveliness").await
    }

    /// The gateway of `TensorZero`, in the Python that `FOREWORD_TENSORZERO` names.
    pub(crate) async fn tensorzero(provider: u16, folder: &Path) -> Option<Self> {
        let python = std::env::var_os("FOREWORD_TENSORZERO")?;
        let (config, script, told) =
            (folder.join("tensorzero.toml"), folder.join("tensorzero.py"), folder.join("tensorzero.port"));
        let text = format!(
            "[gateway]\nobservability.enabled = false\n[models.bench]\nrouting = [\"bench\"]\n[models.bench.providers.bench]\ntype = \"openai\"\n\
             model_name = \"{MODEL}\"\napi_base = \"http://127.0.0.1:{provider}/v1/\"\napi_key_location = \"none\"\n"
        );
        fs::write(&config, text).unwrap();
        let text = "import sys, time, urllib.parse, tensorzero\n\
                    gateway = tensorzero._start_http_gateway(config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False)\n\
                    open(sys.argv[2], 'w').write(str(urllib.parse.urlparse(gateway.base_url).port))\n\
                    time.sleep(86400)\n";
        fs::write(&script, text).unwrap();
        let mut command = Command::new(&python);
        command.arg(&script).arg(&config).arg(&told);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let mut proxy = Self { child, port: 0 };
        for _ in 0..150 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if let Some(port) = fs::read_to_string(&told).ok().and_then(|port| port.trim().parse().ok()) {
                proxy.port = port;
                return Some(proxy);
            }
        }
        None
    }

    /// The proxy of `headroom`, in the Python that `FOREWORD_HEADROOM` names.
    pub(crate) async fn headroom(provider: u16) -> Option<Self> {
        let python = std::env::var_os("FOREWORD_HEADROOM")?;
        let port = free_port();
        let mut command = Command::new(Path::new(&python).with_file_name("headroom"));
        command.args(["proxy", "--host", "127.0.0.1", "--port", &port.to_string(), "--no-telemetry"]);
        command.args(["--openai-api-url", &format!("http://127.0.0.1:{provider}")]);
        Self::start(command, port, "/health").await
    }

    async fn start(mut command: Command, port: u16, health: &str) -> Option<Self> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let proxy = Self { child, port };
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(90) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if is_well(port, health).await {
                return Some(proxy);
            }
        }
        None
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The most memory it had at once.
    pub(crate) fn resident_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()).unwrap_or(f64::NAN) / 1024.0
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time that a process has used, in milliseconds.
pub(crate) fn cpu_ms(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // In hundredths of a second, behind a name that may hold anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() * 10.0
}

async fn is_well(port: u16, health: &str) -> bool {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Ok(mut stream) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let request = format!("GET {health} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    let mut answer = [0; 12];
    stream.write_all(request.as_bytes()).await.is_ok() && stream.read_exact(&mut answer).await.is_ok() && answer.ends_with(b"200")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
