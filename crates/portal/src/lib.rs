//! The program `openuvr-portal`, except for its `main`. Users log in, select an application and get a session of it, on
//! this machine or on a cluster's servers.
//!
//! `openuvr portal` executes this program with the same arguments (`docs/adr/0016-portal.md`). The crate is also a
//! library, which the fuzz targets and the launchers' test suite use.
#![forbid(unsafe_code)]

// The macros `print!`, `println!` and `eprintln!` of `openuvr_terminal` replace those of the standard library.
#[macro_use]
extern crate openuvr_terminal;

mod accounts;
mod acme;
mod catalogue;
mod command;
mod config;
mod demo;
mod descriptors;
#[doc(hidden)]
#[cfg(feature = "kubernetes")]
pub mod fuzzing;
mod http;
pub mod launch;
mod network;
mod oidc;
mod serve;
mod sessions;
mod store;
mod tls;
mod turn;
mod users;

use std::process::ExitCode;

use anyhow::Result;
use openuvr_terminal::{log_to_stderr, out, usage};

use command::{Action, PortalArgs};

/// Runs the program with this process's arguments, and returns its exit code.
pub fn main() -> ExitCode {
    out::guarded(program)
}

fn program() -> ExitCode {
    let matches = match usage::matches(command::command()) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    let run = || -> Result<()> {
        let Some(("portal", words)) = matches.subcommand() else {
            unreachable!("clap requires one of the subcommands");
        };
        run(command::read(words)?)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::unlimited_message(format_args!("openuvr: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: PortalArgs) -> Result<()> {
    let mut config = config::read(args.common.config.as_deref(), args.common.data.as_deref())?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match args.action {
        None => {
            log_to_stderr(args.log);
            match args.demo {
                true => runtime.block_on(demo::run(config)),
                false => runtime.block_on(serve::serve(config, serve::SessionsAtExit::GoOn)),
            }
        }
        Some(Action::User(action)) => runtime.block_on(users::run(&config, action)),
        Some(Action::Check) => serve::check(&config),
    }
}
