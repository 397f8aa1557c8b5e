//! The program `openuvr-portal`, all but its `main`: where people log in, pick an application and get a session
//! of it, on this machine or on those of an engine.
//!
//! `openuvr portal` becomes this program, with the same words (`docs/adr/0016-portal.md`). It is a library only so
//! that its launchers can be tested by one suite.
#![forbid(unsafe_code)]

// Its `print!`, `println!` and `eprintln!` stand in place of the standard library's.
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

/// The program, from this process's words to its exit code.
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
            unreachable!("clap asks for one of the subcommands");
        };
        run(command::read(words)?)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::answer(format_args!("openuvr: {error:#}"));
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
