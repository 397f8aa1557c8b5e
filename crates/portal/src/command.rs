//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches, Parser, Subcommand};
use tracing::Level;

/// Arguments of `openuvr portal`.
#[derive(Parser)]
#[command(
    about = "Serve a web portal: users log in, pick an application and play a session of it",
    after_help = "Getting started:\n  openuvr portal user add NAME --operator   creates an account and prints its password\n  \
    openuvr portal --demo                     runs a demo with a temporary account\n  \
    openuvr portal                            serves the portal at http://127.0.0.1:8600\n\n\
    Without --config, all data is in the folder of --data [default: $XDG_DATA_HOME/openuvr/portal or \
    ~/.local/share/openuvr/portal], where applications.toml lists the applications. docs/deploy.md has examples of the \
    configuration and of applications.toml.\n\n\
    For log-in with OpenID Connect, add a table [oidc] to the configuration (defaults in parentheses):\n  \
    issuer, client_id, address   the provider, the portal's client id, the portal's own URL\n  \
    client_secret_file           a file with the client secret\n  \
    title                        label of the log-in button\n  \
    name_claim                   claim that names a new account (preferred_username)\n  \
    group_claim                  claim with the user's groups (groups)\n  \
    operators, users             group of operators; group of users with access (all users)\n  \
    create                       create missing accounts (false)\n  \
    scopes, hours                additional scopes; lifetime of a log-in in hours (24)\n  \
    ca                           additional trusted certificate authorities"
)]
pub(crate) struct PortalArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Listen address, instead of the configuration's `listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve the scene and a few installed applications, with a temporary account and a temporary data folder
    #[arg(long, conflicts_with_all = ["config", "data"])]
    pub(crate) demo: bool,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: Level,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

/// Locations of files.
#[derive(Args)]
pub(crate) struct CommonArgs {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Data folder, instead of the configuration's `data`
    #[arg(long, value_name = "FOLDER", global = true)]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Manage accounts, even while the portal runs
    #[command(subcommand)]
    User(UserAction),
    /// Validate the configuration and the list of applications
    Check,
}

#[derive(Subcommand)]
pub(crate) enum UserAction {
    /// Create an account, and print the password if it is generated
    Add {
        /// Account name: letters, digits, . _ @ and -
        name: String,
        /// Make the account an operator: it may see and stop the sessions of all users, and manage accounts
        #[arg(long)]
        operator: bool,
        /// Maximum number of concurrent sessions, instead of the number in the configuration
        #[arg(long, value_name = "NUMBER")]
        sessions: Option<u32>,
        /// No password: the user with this subject (`sub`) logs in through the OpenID Connect provider
        #[arg(long, value_name = "SUBJECT", conflicts_with = "password_stdin")]
        subject: Option<String>,
        /// Read the password from standard input, instead of generating one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Link an existing account to a user of the OpenID Connect provider; ends the account's log-ins
    Link {
        /// Account name
        name: String,
        /// The user's subject (`sub`) at the provider; without it, the account cannot log in through the provider
        #[arg(long, value_name = "SUBJECT")]
        subject: Option<String>,
    },
    /// Set a new password, and print it if it is generated; ends the account's log-ins
    Password {
        /// Account name
        name: String,
        /// Read the password from standard input, instead of generating one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove an account and its log-ins; the portal stops the account's sessions
    Remove {
        /// Account name
        name: String,
    },
    /// List the accounts
    List,
}

/// The command line for `openuvr_terminal::usage`, which parses it.
pub(crate) fn command() -> Command {
    let portal = PortalArgs::augment_args(Command::new("portal"));
    Command::new("openuvr-portal")
        // The help shows `openuvr portal`, which users type: `openuvr` executes this program.
        .bin_name("openuvr")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommand(portal)
}

/// Converts clap's matches.
pub(crate) fn read(matches: &clap::ArgMatches) -> Result<PortalArgs, clap::Error> {
    PortalArgs::from_arg_matches(matches)
}
