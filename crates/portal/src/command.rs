//! The words of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches, Parser, Subcommand};
use tracing::Level;

/// `openuvr portal` with its words.
#[derive(Parser)]
#[command(
    about = "Serve a page where people log in, pick an application and get a session of it",
    after_help = "Start here:\n  openuvr portal user add NAME --operator   makes an account and prints its password\n  \
                  openuvr portal --demo                     shows it, with an account of its own\n  \
                  openuvr portal                            serves the page at http://127.0.0.1:8600\n\n\
                  Without --config it keeps everything in ~/.local/share/openuvr/portal, where applications.toml \
                  says what can be started. docs/deploy.md has examples of both files.\n\n\
                  Log-ins by OpenID Connect: a table [oidc] in the configuration, with\n  \
                  issuer, client_id, address   the provider, what the portal is called there, the portal's own address\n  \
                  client_secret_file           a file with the portal's secret there\n  \
                  title                        what the button says\n  \
                  name_claim                   the claim that names a new account (preferred_username)\n  \
                  group_claim                  the claim with the person's groups (groups)\n  \
                  operators, users             the group of operators, and the only group that gets in\n  \
                  create                       whether who has no account gets one (false)\n  \
                  scopes, hours, ca            more to ask for; how long a log-in lives (24); who else is trusted"
)]
pub(crate) struct PortalArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// Where browsers are answered, instead of the configuration's `listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Serve what is installed on this machine, with a new account, in a folder that goes with the portal
    #[arg(long, conflicts_with_all = ["config", "data"])]
    pub(crate) demo: bool,
    /// Log what is of this level and above: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log: Level,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

/// Where things are.
#[derive(Args)]
pub(crate) struct CommonArgs {
    /// The configuration, in TOML
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// The folder of what the portal keeps, instead of the configuration's `data`
    #[arg(long, value_name = "FOLDER", global = true)]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Action {
    /// Make and take away accounts; the portal may run meanwhile
    #[command(subcommand)]
    User(UserAction),
    /// Read configuration and applications, and say what is wrong with them
    Check,
}

#[derive(Subcommand)]
pub(crate) enum UserAction {
    /// Make an account, and print its password
    Add {
        /// Its name: letters, digits, . _ @ and -
        name: String,
        /// It sees and stops everybody's sessions
        #[arg(long)]
        operator: bool,
        /// Sessions that it may have at a time, instead of the configuration's
        #[arg(long, value_name = "NUMBER")]
        sessions: Option<u32>,
        /// It has no password: the person with this subject (`sub`) logs in by the provider of OpenID Connect
        #[arg(long, value_name = "SUBJECT", conflicts_with = "password_stdin")]
        subject: Option<String>,
        /// Read the password from standard input, instead of making one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Let a person of the provider of OpenID Connect log in to an account that is there; its log-ins end
    Link {
        /// Its name
        name: String,
        /// The person's subject (`sub`) at the provider; without it nobody may log in to the account by the provider
        #[arg(long, value_name = "SUBJECT")]
        subject: Option<String>,
    },
    /// Give an account another password, and print it; its log-ins end
    Password {
        /// Its name
        name: String,
        /// Read the password from standard input, instead of making one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Take an account away, with its log-ins; its sessions are stopped by the portal
    Remove {
        /// Its name
        name: String,
    },
    /// List the accounts
    List,
}

/// For `openuvr_terminal::usage`.
pub(crate) fn command() -> Command {
    let portal = PortalArgs::augment_args(Command::new("portal"));
    Command::new("openuvr-portal")
        // As people type it: `openuvr` becomes this program.
        .bin_name("openuvr")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommand(portal)
}

/// Reads what clap has found.
pub(crate) fn read(matches: &clap::ArgMatches) -> Result<PortalArgs, clap::Error> {
    PortalArgs::from_arg_matches(matches)
}
