//! `openuvr doctor`: whether this machine can be a host or a client, what would make it better at
//! it, and the exact command for that.
//!
//! It tries things and does not only read about them: it sends datagrams, starts a real-time
//! thread, codes a picture with each encoder. It changes nothing and listens nowhere for longer
//! than it looks.

mod codecs;
mod displays;
mod finding;
mod hook;
mod kernel;
mod machine;
mod network;
mod privileges;
mod sys;
mod wifi;

use std::process::ExitCode;

use finding::{Finding, Report};

/// See whether this machine can be a host or a client, and what to do about what is missing
///
/// Each finding is `ok`, `could be better` (it works, with more latency or on fewer paths),
/// `missing` (the role can't run), or `not here` (a codec of a device that few machines have). Below
/// it stands what to do. Exit status: 0 if the role can run, 1 if not.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// What this machine is to be
    #[arg(long, value_enum, default_value_t)]
    role: Role,
    /// The X display to look at [default: $DISPLAY]
    #[arg(long, value_name = "DISPLAY")]
    display: Option<String>,
    /// The UDP port that a host is to listen at
    #[arg(long, value_name = "PORT", default_value_t = openuvr_runtime::PORT)]
    port: u16,
    /// Print JSON instead: an object with `role`, `can_run` and the list `findings`
    #[arg(long)]
    json: bool,
}

/// What a machine is asked to be.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// Runs the application
    Host,
    /// Shows it
    Client,
    /// Both at once, as for the demo
    #[default]
    Both,
}

impl Role {
    const fn hosts(self) -> bool {
        matches!(self, Role::Host | Role::Both)
    }

    const fn shows(self) -> bool {
        matches!(self, Role::Client | Role::Both)
    }
}

/// Looks, prints what was found, and says by the exit status whether the role can run.
///
/// # Errors
/// Only if the findings can't be written as JSON.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = examine(args);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report.as_json())?);
    } else {
        print!("{}", report.text(openuvr_terminal::out::is_terminal()));
    }
    Ok(match report.can_run() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn examine(args: &Args) -> Report {
    let role = args.role;
    let display = args
        .display
        .clone()
        .or_else(|| std::env::var("DISPLAY").ok())
        .filter(|name| !name.is_empty());
    let mut areas: Vec<(&'static str, Vec<Finding>)> = vec![
        ("Kernel", kernel::findings()),
        ("Privileges", privileges::findings()),
        ("Processor", machine::processor()),
        ("Clock", machine::clock()),
        ("Network", network::findings(role, args.port)),
        ("Wi-Fi", wifi::findings()),
    ];
    if role.hosts() {
        areas.push(("Encoders", codecs::encoders()));
        areas.push(("Games", hook::findings()));
    }
    if role.shows() {
        areas.push(("Decoders", codecs::decoders()));
    }
    areas.push(("Display", displays::findings(role, display.as_deref())));
    areas.retain(|(_, findings)| !findings.is_empty());
    Report { role, areas }
}

/// The first line of a file of `/proc` or `/sys`, without blanks around it.
fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

/// The command that gives this program its privileges. All of them at once: each setcap(8)
/// replaces what the one before gave.
fn setcap() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "openuvr".into());
    let names = "cap_sys_nice,cap_net_raw,cap_ipc_lock";
    format!("sudo setcap {names}+ep {}", program.display())
}
