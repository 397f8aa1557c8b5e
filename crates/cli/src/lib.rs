//! The program `openuvr`, except for its `main`.
//!
//! It is a library only so that `openuvr-bench host` can run the same host with some parts replaced ([`host::HostParts`]);
//! see `docs/adr/0010-measurement-program.md`.
#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of this crate replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod access_point;
mod client;
mod clients;
mod config;
mod devices;
mod gateway_command;
mod gateways;
pub mod host;
mod launches;
mod realtime;
mod release;
mod run;
mod sibling_programs;
#[cfg(test)]
mod tests;
mod web_certificate;
mod xr;

use std::process::ExitCode;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use openuvr_demo::room;
use openuvr_discovery as discovery;
use openuvr_doctor as doctor;
use openuvr_portal_client::link_handler;
use openuvr_scene as scene;
use openuvr_session::report::{self, reporter};
use openuvr_session::{agent, confine, descendants, stand_in};
use openuvr_terminal::{out, usage};

use config::{ClientConfig, ConfigError, GatewayConfig, RunConfig, XrConfig};
use host::DefaultParts;

/// Runs the program with this process's arguments and returns its exit code.
pub fn main() -> ExitCode {
    out::guarded(program)
}

fn program() -> ExitCode {
    let matches = match usage::matches(command()) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    if matches!(matches.subcommand_name(), Some("host" | "run" | "xr")) {
        report::init();
    }
    let result = match matches.subcommand() {
        Some((name, m)) if host::is_command(name) => host::run(name, m, &DefaultParts),
        Some(("client", m)) => client::run(m),
        Some(("run", m)) => run::run(m),
        Some(("xr", m)) => xr::run(m),
        Some(("gateway", m)) => gateway_command::run(m),
        Some(("session", m)) => agent::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(agent::run),
        Some((stand_in::COMMAND, m)) => with(m, |args| stand_in::run(&args)),
        Some((confine::NAME, m)) => confine::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| confine::run(&args)),
        Some(("link", m)) => link_handler::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| link_handler::run(args, client::run_with)),
        Some(("scene", m)) => with(m, |args| scene::run(&args)),
        Some(("demo", m)) => openuvr_demo::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| openuvr_demo::run(&args)),
        Some(("room", m)) => room::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| room::run(&args)),
        Some(("ap", m)) => with(m, |args| access_point::run(&args)),
        Some(("devices", m)) => with(m, devices::run),
        #[cfg(feature = "moonlight")]
        Some(("applications", m)) => with(m, openuvr_applications::run),
        Some(("web-certificate", m)) => with(m, |args| web_certificate::run(&args)),
        Some(("hosts", m)) => with(m, discovery::run),
        Some(("doctor", m)) => doctor::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| doctor::run(&args)),
        Some(("setup", m)) => openuvr_setup::Args::from_arg_matches(m)
            .map_err(anyhow::Error::from)
            .and_then(|args| openuvr_setup::run(&args)),
        Some((name, m)) if sibling_programs::is_command(name) => sibling_programs::run(name, m),
        Some((name, m)) if let Some(ended) = client::kms::run(name, m) => {
            ended.map(|()| ExitCode::SUCCESS)
        }
        _ => unreachable!("clap requires one of the subcommands"),
    };
    let code = result.unwrap_or_else(|error| {
        let code = exit_code(&error);
        if let Some(reporter) = reporter() {
            reporter.report_end(code, format!("{error:#}"));
        }
        out::unlimited_message(format_args!("openuvr: {error:#}"));
        ExitCode::from(code)
    });
    if let Some(reporter) = reporter() {
        // Ends processes that the application has left running.
        descendants::end_all();
        reporter.finish();
    }
    code
}

/// The exit code for this error: 2 for wrong usage or settings, otherwise 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> u8 {
    let mut refused = error.chain().filter_map(|cause| cause.downcast_ref());
    match refused.any(ConfigError::is_usage_error) {
        true => usage::EXIT_CODE,
        false => usage::exit_code(error),
    }
}

/// The output of `--version`: the program's version, the package's version with the commit, and the features.
fn long_version() -> String {
    let package = option_env!("PACKAGE_VERSION").unwrap_or("none, built from the sources");
    let all = [
        ("desktop-portal", cfg!(feature = "desktop-portal")),
        ("gateway", cfg!(feature = "gateway")),
        ("kms", cfg!(feature = "kms")),
        ("moonlight", cfg!(feature = "moonlight")),
        ("xdp", cfg!(feature = "xdp")),
    ];
    let features: Vec<&str> = all
        .into_iter()
        .filter_map(|(name, built_in)| built_in.then_some(name))
        .collect();
    format!(
        "{}\npackage: {package}\nfeatures: {}\nlibraries: see `openuvr doctor`",
        env!("CARGO_PKG_VERSION"),
        features.join(" ")
    )
}

fn command() -> Command {
    let command = Command::new("openuvr");
    #[cfg(feature = "moonlight")]
    let command = command.subcommand(openuvr_applications::Args::augment_args(Command::new(
        "applications",
    )));
    command
        .version(env!("CARGO_PKG_VERSION"))
        .long_version(long_version())
        .about("Streams interactive 3D applications to thin clients, and sends the clients' input back")
        .after_help(
            "Getting started:\n  openuvr host            on the machine with the application\n  \
             openuvr client HOST     on the thin client; without HOST it searches the local network\n  \
             openuvr run -- GAME     instead of `openuvr host`, to stream one game from inside its process\n  \
             openuvr xr -- APP       instead of `openuvr host`, to stream one OpenXR application\n  \
             openuvr ap              set up a dedicated radio link between host and clients\n  \
             openuvr gateway SOCKET  serve browsers and video players for an application with libopenuvr\n  \
             openuvr session -- APP  run a portal's session: display, application, host and gateway\n  \
             openuvr demo            run host and client on this machine, on virtual displays",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(host::commands())
        .subcommand(ClientConfig::command())
        .subcommand(RunConfig::command())
        .subcommand(XrConfig::command())
        .subcommand(GatewayConfig::command())
        .subcommand(openuvr_access_point::Args::augment_args(Command::new("ap")))
        .subcommand(devices::Args::augment_args(Command::new("devices")))
        .subcommand(web_certificate::Args::augment_args(Command::new(
            "web-certificate",
        )))
        .subcommand(discovery::Args::augment_args(Command::new("hosts")))
        .subcommand(doctor::Args::augment_args(Command::new("doctor")))
        .subcommand(openuvr_setup::Args::augment_args(Command::new("setup")))
        .subcommand(agent::Args::augment_args(Command::new("session")))
        .subcommand(link_handler::Args::augment_args(Command::new("link")))
        .subcommand(stand_in::Args::augment_args(Command::new(stand_in::COMMAND)))
        .subcommand(confine::Args::augment_args(Command::new(confine::NAME)))
        .subcommand(scene::Args::augment_args(Command::new("scene")))
        .subcommand(room::Args::augment_args(Command::new("room")))
        .subcommand(openuvr_demo::Args::augment_args(Command::new("demo")))
        .subcommands(sibling_programs::commands())
        .subcommands(client::kms::commands())
}

fn with<A: FromArgMatches>(
    matches: &ArgMatches,
    run: impl FnOnce(A) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    run(A::from_arg_matches(matches)?)?;
    Ok(ExitCode::SUCCESS)
}
