//! `cargo xtask bench gateway`: what a gateway adds to a request, Foreword's beside the gateway of `TensorZero` and the
//! proxies of `LiteLLM` and headroom, all in front of the same provider
//! on the same machine in the same run; and what a thousand streams at once take.
//!
//! First the provider answers at once, so that the gateway has all it can do: how much is that? Then it thinks for a while, as providers do,
//! so that clients do not wait for each other: what does the gateway add, at about a thousand requests a second and at a few? All run as
//! processes of their own but the provider and the clients, which are this process and the same for everyone. They are measured by turns,
//! some rounds long, and every figure is the median of the rounds: what the machine does to one of them beside its work says nothing about
//! who was measured just then.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod load;
mod proxies;
mod stub;

use std::fs;
use std::time::{Duration, Instant};

use load::{Figures, Load, Target};
use proxies::Proxy;

/// Rounds, where no other number is asked for.
const ROUNDS: usize = 5;
/// How many clients ask at once, each again as soon as it is answered, where the provider answers at once, and where it thinks so long.
const CONNECTIONS: [usize; 3] = [1, 16, 256];
const THINKING: [(Duration, usize); 3] =
    [(Duration::from_millis(15), 16), (Duration::from_millis(500), 16), (Duration::from_millis(500), 256)];
/// The levels, and how a client asks for each.
const LEVELS: [(&str, &str); 3] = [
    ("observe", "x-foreword-level: observe\r\n"),
    ("assist", "x-foreword-level: assist\r\n"),
    ("manage", "x-foreword-level: manage\r\n"),
];
/// How long a process must do nothing until it is believed to be done.
const STILL: Duration = Duration::from_millis(2500);
/// Streams that are open at once, how many parts each has, and how far apart they come.
const STREAMS: usize = 1000;
const PARTS: usize = 50;
const APART: Duration = Duration::from_millis(200);

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(2.0);
    let quick = args.next().is_some_and(|arg| arg == "quick");
    // Only so many clients, where the provider thinks so long: `16` or `16@15`.
    let only = args.next().and_then(|arg| {
        let (connections, thinks) = arg.split_once('@').unwrap_or((&arg, "0"));
        Some((Duration::from_millis(thinks.parse().ok()?), connections.parse().ok()?))
    });
    let rounds = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(ROUNDS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let provider = stub::start();
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan { lasting: Duration::from_secs_f64(seconds), rounds, quick, only };
        table(provider, folder.path(), &plan).await;
        if !quick && only.is_none() {
            streams(provider, folder.path()).await;
        }
    });
}

/// Who is asked.
struct Who {
    name: &'static str,
    target: Target,
    /// Where it is a process of its own.
    process: Option<u32>,
    /// How much longer than the others it is asked: who is slow answers too little.
    longer: u32,
}

/// What came of a round.
struct Round {
    figures: Figures,
    /// What came of clients that asked the provider itself meanwhile.
    beside: Option<Figures>,
    /// Processor time of a request, where it is someone else's.
    cpu_ms: f64,
    /// The share of the machine that was others' meanwhile.
    stolen: f64,
}

impl Who {
    /// Asks it, and others beside it.
    async fn round(&self, load: Load, beside: Option<&Who>) -> Round {
        let cpu_ms = || self.process.map_or(f64::NAN, proxies::cpu_ms);
        let (before, (took, all)) = (cpu_ms(), stolen());
        let longer = if load.thinks.is_zero() { self.longer } else { 1 };
        let load = Load { lasting: load.lasting * longer, ..load };
        let others = async { Some(load.run(beside?.target).await) };
        let (figures, beside) = tokio::join!(load.run(self.target), others);
        let (took, all) = (stolen().0 - took, stolen().1 - all);
        // What it does later is its own too, and not to be done while another one is asked.
        let (mut now, mut since) = (cpu_ms(), Instant::now());
        while self.process.is_some() && since.elapsed() < STILL {
            tokio::time::sleep(Duration::from_millis(100)).await;
            // Something always looks whether there is something to do.
            if cpu_ms() > now + 10.0 {
                (now, since) = (cpu_ms(), Instant::now());
            }
        }
        let cpu_ms = (cpu_ms() - before) / figures.all as f64;
        Round { figures, beside, cpu_ms, stolen: took / all }
    }
}

/// Ticks of the processors that the host of a virtual machine gave to others, and all of them.
fn stolen() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> =
        stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8).flat_map(str::parse).collect();
    (ticks.get(7).copied().unwrap_or(0.0), ticks.iter().sum())
}

/// What is measured.
struct Plan {
    /// How long a round is.
    lasting: Duration,
    rounds: usize,
    /// Without the other gateways, for work on ours.
    quick: bool,
    /// Only so many clients, where the provider thinks so long.
    only: Option<(Duration, usize)>,
}

/// With whom we compare ourselves, in the order of the columns.
const PEERS: [&str; 3] = ["TensorZero", "LiteLLM", "headroom"];

async fn table(provider: u16, folder: &std::path::Path, plan: &Plan) {
    let ours = Proxy::foreword(provider, &folder.join("sessions")).await;
    let mut all = vec![Who { name: "the provider itself", target: Target::plain(provider, ""), process: None, longer: 1 }];
    for (name, headers) in LEVELS {
        all.push(Who { name, target: Target::plain(ours.port, headers), process: Some(ours.id()), longer: 1 });
    }
    let mut peers = Vec::new();
    if !plan.quick {
        for name in PEERS {
            let proxy = match name {
                "TensorZero" => Proxy::tensorzero(provider, folder).await,
                "LiteLLM" => Proxy::litellm(provider, folder).await,
                _ => Proxy::headroom(provider).await,
            };
            let Some(proxy) = proxy else {
                println!("{name} did not start: FOREWORD_{} names no Python that has it", name.to_uppercase());
                continue;
            };
            let plain = Target::plain(proxy.port, "");
            let (target, longer) = match name {
                "TensorZero" => {
                    (Target { path: "/openai/v1/chat/completions", model: "tensorzero::model_name::bench", ..plain }, 1)
                }
                _ => (plain, 3),
            };
            all.push(Who { name, target, process: Some(proxy.id()), longer });
            peers.push((name, proxy));
        }
    }
    println!(
        "{:<22} {:>11} {:>10} {:>10} {:>10} {:>10} {:>8} {:>11} {:>12} {:>10} {:>8}",
        "",
        "connections",
        "p50 ms",
        "p99 ms",
        "+p50 ms",
        "+p99 ms",
        "CPU ms",
        "requests/s",
        "x TensorZero",
        "x LiteLLM",
        "stolen"
    );
    let is_wanted = |load: &(Duration, usize)| plan.only.is_none_or(|only| only == *load);
    println!("a provider that answers at once");
    for (thinks, connections) in CONNECTIONS.map(|connections| (Duration::ZERO, connections)).into_iter().filter(is_wanted) {
        rows(&all.iter().collect::<Vec<_>>(), Load { connections, lasting: plan.lasting, thinks }, plan.rounds).await;
    }
    for (thinks, connections) in THINKING.into_iter().filter(is_wanted) {
        println!("a provider that thinks for {} ms", thinks.as_millis());
        // Who cannot answer that many is not asked to.
        let is_many = connections as f64 / thinks.as_secs_f64() >= 50.0;
        let able: Vec<&Who> = all.iter().filter(|who| !is_many || who.longer == 1).collect();
        rows(&able, Load { connections, lasting: plan.lasting * 2, thinks }, plan.rounds).await;
    }
    stub::think(Duration::ZERO);
    println!("the most memory: Foreword {:.0} MB", ours.resident_mb());
    for (name, proxy) in &peers {
        println!("                 {name} {:.0} MB", proxy.resident_mb());
    }
}

/// One row for each of them under the same load. The first is the provider itself.
async fn rows(all: &[&Who], load: Load, count: usize) {
    // Where there is room for both, the provider itself is asked at the same time: what the machine does to one, it does to the other.
    let beside = (!load.thinks.is_zero()).then_some(all[0]);
    let mut rounds: Vec<Vec<Round>> = all.iter().map(|_| Vec::new()).collect();
    for round in 1..=count {
        eprint!("\r\x1b[K{} connections, round {round} of {count}", load.connections);
        for (at, who) in all.iter().enumerate() {
            rounds[at].push(who.round(load, beside.filter(|_| at > 0)).await);
        }
    }
    eprint!("\r\x1b[K");
    for (at, (who, own)) in all.iter().zip(&rounds).enumerate() {
        let figure = |of: &dyn Fn(&Round) -> f64| median(own.iter().map(of));
        let added = |of: fn(&Figures) -> f64| {
            let direct = own.iter().zip(&rounds[0]).map(|(own, direct)| own.beside.as_ref().unwrap_or(&direct.figures));
            if at == 0 { f64::NAN } else { median(own.iter().zip(direct).map(|(own, direct)| of(&own.figures) - of(direct))) }
        };
        let times = |peer: &str| match all.iter().position(|who| who.name == peer) {
            Some(peer) if peer != at && load.thinks.is_zero() => {
                median(own.iter().zip(&rounds[peer]).map(|(own, peer)| own.figures.per_second / peer.figures.per_second))
            }
            _ => f64::NAN,
        };
        let shown = |figure: f64, digits: usize| if figure.is_nan() { String::new() } else { format!("{figure:.digits$}") };
        println!(
            "{:<22} {:>11} {:>10.2} {:>10.2} {:>10} {:>10} {:>8} {:>11.0} {:>12} {:>10} {:>7.1}%",
            who.name,
            load.connections,
            figure(&|round| round.figures.p50_ms),
            figure(&|round| round.figures.p99_ms),
            shown(added(|figures| figures.p50_ms), 2),
            shown(added(|figures| figures.p99_ms), 2),
            shown(figure(&|round| round.cpu_ms), 2),
            figure(&|round| round.figures.per_second),
            shown(times(PEERS[0]), 2),
            shown(times(PEERS[1]), 1),
            figure(&|round| round.stolen * 100.0),
        );
        let all = own.iter().flat_map(|round| std::iter::once(&round.figures).chain(&round.beside));
        let mut failures = all.flat_map(|figures| &figures.failures).peekable();
        if let Some(first) = failures.peek().copied() {
            println!("  {} requests failed, the first with: {}", failures.count(), first.chars().take(200).collect::<String>());
        }
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

async fn streams(provider: u16, folder: &std::path::Path) {
    let proxy = Proxy::foreword(provider, &folder.join("streams")).await;
    let before = proxy.resident_mb();
    let (whole, seconds) = load::streams(proxy.port, STREAMS).await;
    println!(
        "\n{STREAMS} streams at once, {PARTS} parts each, {} ms apart: {whole} whole after {seconds:.1} s \
         (the provider takes {:.1} s); the server's memory at most {:.0} MB, {before:.0} MB before",
        APART.as_millis(),
        APART.as_secs_f64() * PARTS as f64,
        proxy.resident_mb(),
    );
}
