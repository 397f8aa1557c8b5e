//! The system group to which other steps grant rights.

use anyhow::Result;

use super::{Choice, Context, Plan, State, Step};
use crate::changes::Change;
use crate::changes::accounts::{self, GroupEntry, Member};

pub(super) const NAME: &str = "openuvr";

/// The note to the user for all steps that grant rights to the group.
pub(super) fn note(user: &str) -> Option<String> {
    Some(format!(
        "programs of {user} get these rights at the next log-in: end all sessions of {user}, then log in again, or \
         restart the machine"
    ))
}

pub(super) struct Group;

impl Step for Group {
    fn name(&self) -> &'static str {
        "group"
    }

    fn about(&self) -> &'static str {
        "the group openuvr, to which other steps grant rights"
    }

    fn reasons(&self) -> [&'static str; 2] {
        [
            "Other steps require this group.",
            "The group grants nothing by itself. Add further accounts with --user NAME.",
        ]
    }

    fn choice(&self) -> Choice {
        Choice::Implied
    }

    fn examine(&self, context: &Context<'_>) -> Result<State> {
        let user = match context.user() {
            Ok(user) => user,
            Err(state) => return Ok(state),
        };
        let group = GroupEntry::find(context.system, NAME)?;
        let mut changes = Vec::new();
        if group.is_none() {
            changes.push(Change::Group(accounts::Group {
                name: NAME.to_owned(),
            }));
        }
        if group.is_some_and(|group| group.has(user)) {
            return Ok(State::Present(format!("{user} is a member of {NAME}")));
        }
        changes.push(Change::Member(Member {
            group: NAME.to_owned(),
            user: user.to_owned(),
        }));
        Ok(State::Needed(Plan {
            changes,
            note: note(user),
        }))
    }
}
