//! `openuvr doctor`: checks whether this machine can be a host or a client, and lists possible improvements with
//! their commands.
//!
//! It performs real operations: it sends datagrams, starts a real-time thread, and codes a picture with each encoder. It
//! changes no settings, and opens sockets only for the duration of a check.

#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "figures for display"
)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod codecs;
mod displays;
mod finding;
mod firewall;
mod hook;
mod kernel;
mod machine;
mod network;
mod portal;
mod privileges;
mod sys;
mod wayland;
mod wifi;

use std::process::ExitCode;

use finding::{Finding, Report};

/// Check whether this machine can be a host or a client, with a remedy for each problem
///
/// Each finding is `ok`, `could be better` (the role can run, with more latency or fewer features), `missing` (the role
/// cannot run), or `not here` (a hardware codec whose device is absent, as on most machines). A remedy follows each
/// problem. Exit status: 0 if the role can run, 1 if not.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Role to check
    #[arg(long, value_enum, default_value_t)]
    role: Role,
    /// X display to check [default: $DISPLAY]
    #[arg(long, value_name = "DISPLAY")]
    display: Option<String>,
    /// Wayland display to check [default: $WAYLAND_DISPLAY]
    #[arg(long, value_name = "DISPLAY")]
    wayland_display: Option<String>,
    /// UDP port of the host
    #[arg(long, value_name = "PORT", default_value_t = openuvr_runtime::PORT)]
    port: u16,
    /// Print the reason and the remedy for each absent device
    #[arg(long)]
    all: bool,
    /// Print JSON: an object with `role`, `can_run` and the list `findings`
    #[arg(long)]
    json: bool,
}

/// The role of a machine.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// Run and stream an application
    Host,
    /// Show a stream
    Client,
    /// Both at once, as in the demo
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

/// Runs the checks and prints the findings. The exit status indicates whether the role can run.
///
/// # Errors
/// Returns an error if the findings cannot be written as JSON.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = examine(args);
    let can_run = report.can_run();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report.as_json())?);
    } else {
        let colours = openuvr_terminal::out::is_terminal();
        let text = match args.all {
            true => report.text(colours),
            false => report.summarised().text(colours),
        };
        print!("{text}");
    }
    Ok(match can_run {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn examine(args: &Args) -> Report {
    let role = args.role;
    let named = |argument: &Option<String>, variable: &str| {
        let name = argument.clone().or_else(|| std::env::var(variable).ok());
        name.filter(|name| !name.is_empty())
    };
    let display = named(&args.display, "DISPLAY");
    let wayland = named(&args.wayland_display, "WAYLAND_DISPLAY");
    let mut areas: Vec<(&'static str, Vec<Finding>)> = vec![
        ("Kernel", kernel::findings()),
        ("Privileges", privileges::findings(role)),
        ("Processor", machine::processor()),
        ("Clock", machine::clock()),
        ("Network", network::findings(role, args.port)),
        ("Wi-Fi", wifi::findings()),
    ];
    if role.hosts() {
        areas.push(("Firewall", firewall::findings(args.port)));
        areas.push(("Encoders", codecs::encoders()));
        areas.push(("Games", hook::findings()));
    }
    if role.shows() {
        areas.push(("Decoders", codecs::decoders()));
    }
    if let Some(name) = &wayland {
        let required = display.is_none();
        areas.push(("Wayland session", wayland::findings(role, name, required)));
    }
    // A Wayland display is enough: the lack of an X display is reported only if there is no Wayland display, either.
    if display.is_some() || wayland.is_none() {
        areas.push(("Display", displays::findings(role, display.as_deref())));
    }
    areas.push(("Graphics devices", codecs::devices()));
    areas.retain(|(_, findings)| !findings.is_empty());
    Report { role, areas }
}

/// The first line of a file of `/proc` or `/sys`, without surrounding blanks.
fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

/// The command that executes a step of `openuvr setup`.
fn setup(step: &str) -> String {
    let program = openuvr_terminal::shell::for_sudo();
    format!("sudo {program} setup --only {step}")
}
