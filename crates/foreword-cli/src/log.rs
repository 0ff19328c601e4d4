//! What the program does, told on standard error: `-v`, `RUST_LOG` and `--log-format`.

use std::io::Write;
use std::{env, fmt};

use clap::{ArgAction, Args, ValueEnum};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use crate::terminal;

/// Flags that every command has.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Log to standard error: -v requests and tools, -vv every step, -vvv also content. `RUST_LOG` overrides it
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Logging")]
    verbose: u8,

    /// The form of the log
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", global = true, help_heading = "Logging")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}

/// Begins to log, if the flags or `RUST_LOG` ask for it. A server always logs warnings.
pub(crate) fn begin(args: &LogArgs, is_server: bool) {
    let level = match args.verbose {
        0 if is_server => "warn",
        0 => "off",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let usual = format!("off,{}", OURS.map(|name| format!("{name}={level}")).join(","));
    let named = env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
    if named.is_none() && level == "off" {
        return;
    }
    let filter = match named {
        Some(named) => match EnvFilter::builder().parse(&named) {
            Ok(filter) => filter,
            Err(error) => {
                eprintln!("Ignored RUST_LOG: {error}");
                EnvFilter::new(usual)
            }
        },
        None => EnvFilter::new(usual),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Stderr).with_ansi(false);
    let begun = match args.log_format {
        LogFormat::Text => builder.with_timer(Clock).try_init(),
        LogFormat::Json => builder.json().with_timer(Clock).try_init(),
    };
    if let Err(error) = begun {
        eprintln!("Failed to start the log: {error}");
    }
}

/// The crates that `-v` speaks of.
const OURS: [&str; 10] = [
    "foreword",
    "foreword_core",
    "foreword_engine",
    "foreword_models",
    "foreword_program",
    "foreword_provider",
    "foreword_server",
    "foreword_store",
    "foreword_tools",
    "foreword_vault",
];

/// Standard error, which lets nothing through that could move the cursor of a terminal.
struct Stderr;

impl MakeWriter<'_> for Stderr {
    type Writer = terminal::Output<Box<dyn Write>>;

    fn make_writer(&self) -> Self::Writer {
        terminal::stderr()
    }
}

/// The time in UTC, to the millisecond.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.3}", jiff::Timestamp::now())
    }
}
