//! `openuvr portal user`: manages accounts from the command line.

use std::io::{self, BufRead as _};

use anyhow::{Context as _, Result, bail};

use crate::accounts;
use crate::command::UserAction;
use crate::config::Config;
use crate::oidc;
use crate::serve;
use crate::store::{Account, Store, StoreError, User};

/// Executes the action and prints the result.
///
/// # Errors
/// Returns an error if the database cannot be opened, or if the account does not exist or already exists.
pub(crate) async fn run(config: &Config, action: UserAction) -> Result<()> {
    let store = serve::store(config).await?;
    let none =
        |name: &str| format!("no such account: {name:?}; `openuvr portal user list` lists them");
    match action {
        UserAction::Add {
            name,
            operator,
            sessions,
            subject,
            password_stdin,
        } => {
            if let Some(subject) = subject {
                let user = User {
                    name: name.clone(),
                    // There is no password, because only the provider authenticates the user.
                    password: String::new(),
                    operator,
                    sessions,
                };
                let subject = at_provider(config, &subject)?;
                if let Some(other) = store.name_of(&subject).await? {
                    bail!(StoreError::Linked(other));
                }
                store.add_user(&user, Some(&subject)).await?;
                println!("{name} can log in with the provider");
                print_database(&store);
                return Ok(());
            }
            let password = password(password_stdin)?;
            let user = User {
                name: name.clone(),
                password: accounts::hash(&password)?,
                operator,
                sessions,
            };
            store.add_user(&user, None).await?;
            print_password(&name, &password, password_stdin);
            print_database(&store);
        }
        UserAction::Password {
            name,
            password_stdin,
        } => {
            let password = password(password_stdin)?;
            if !store
                .set_password(&name, &accounts::hash(&password)?)
                .await?
            {
                bail!(none(&name));
            }
            print_password(&name, &password, password_stdin);
        }
        UserAction::Link { name, subject } => {
            let subject = match subject {
                Some(subject) => Some(at_provider(config, &subject)?),
                None => None,
            };
            if !store.link(&name, subject.as_deref()).await? {
                bail!(none(&name));
            }
            match subject {
                Some(_) => println!("{name} can log in with the provider"),
                None => println!("{name} can no longer log in with the provider"),
            }
        }
        UserAction::Remove { name } => {
            if !store.remove_user(&name).await? {
                bail!(none(&name));
            }
            println!("removed {name}");
        }
        UserAction::List => {
            for Account { user, disabled } in store.accounts().await? {
                let role = if user.operator { "operator" } else { "user" };
                let sessions = user
                    .sessions
                    .map_or(String::new(), |n| format!(", at most {n} sessions"));
                let disabled = if disabled { ", disabled" } else { "" };
                println!("{}: {role}{sessions}{disabled}", user.name);
            }
        }
    }
    Ok(())
}

/// The account key of the user with this subject at the configured provider.
fn at_provider(config: &Config, subject: &str) -> Result<String> {
    let Some(oidc) = &config.oidc else {
        bail!("no provider is configured: add a table [oidc] to the configuration");
    };
    Ok(oidc::key(&oidc.issuer, subject))
}

fn password(from_input: bool) -> Result<String> {
    if !from_input {
        return Ok(accounts::random_password());
    }
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.context("cannot read the password from standard input")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Prints which database contains the account, because another portal on this machine may use another database.
fn print_database(store: &Store) {
    println!("The account is in the database {}", store.location());
}

fn print_password(name: &str, password: &str, known: bool) {
    match known {
        true => println!("{name} can log in"),
        false => println!("{name} can log in with the password {password}"),
    }
}
