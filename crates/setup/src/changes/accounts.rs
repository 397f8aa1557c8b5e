//! A group and its members.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Reversal, Reversible};
use crate::system::System;

/// A change that creates a system group. The group did not exist before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) name: String,
}

/// An entry of the database of groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct GroupEntry {
    pub(crate) id: u32,
    pub(crate) members: Vec<String>,
}

impl GroupEntry {
    /// Looks a group up, also in directory services such as LDAP; `None` if there is no such group, or if `getent` is
    /// not installed.
    ///
    /// # Errors
    /// Returns an error if `getent` cannot be run.
    pub(crate) fn find(system: &System<'_>, name: &str) -> Result<Option<GroupEntry>> {
        if !system.succeeds(&["getent", "group", name])? {
            return Ok(None);
        }
        Ok(GroupEntry::parse(&system.run(&["getent", "group", name])?))
    }

    /// Whether the account is a member.
    pub(crate) fn has(&self, user: &str) -> bool {
        self.members.iter().any(|member| member == user)
    }

    /// Parses `name:password:id:member,member`.
    fn parse(line: &str) -> Option<GroupEntry> {
        let mut fields = line.trim_end().split(':').skip(2);
        let id = fields.next()?.parse().ok()?;
        let members = fields.next()?.split(',').filter(|name| !name.is_empty());
        Some(GroupEntry {
            id,
            members: members.map(str::to_owned).collect(),
        })
    }
}

impl Reversible for Group {
    fn lines(&self) -> Vec<String> {
        vec![format!("groupadd --system {}", self.name)]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        system.run(&["groupadd", "--system", &self.name]).map(drop)
    }

    fn reversal(&self) -> String {
        format!("groupdel {}", self.name)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        let Some(group) = GroupEntry::find(system, &self.name)? else {
            return Ok(Reversal::NothingToDo);
        };
        if !group.members.is_empty() {
            let members = group.members.join(", ");
            return Ok(Reversal::Kept(format!("it still has members: {members}")));
        }
        system.run(&["groupdel", &self.name])?;
        Ok(Reversal::Reversed)
    }
}

/// A change that adds a user to a group. The user was not a member before.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) group: String,
    pub(crate) user: String,
}

impl Reversible for Member {
    fn lines(&self) -> Vec<String> {
        vec![format!(
            "usermod --append --groups {} {}",
            self.group, self.user
        )]
    }

    fn apply(&self, system: &System<'_>) -> Result<()> {
        let words = ["usermod", "--append", "--groups", &self.group, &self.user];
        system.run(&words).map(drop)
    }

    fn reversal(&self) -> String {
        format!("gpasswd --delete {} {}", self.user, self.group)
    }

    fn undo(&self, system: &System<'_>) -> Result<Reversal> {
        let group = GroupEntry::find(system, &self.group)?;
        if !group.is_some_and(|group| group.has(&self.user)) {
            return Ok(Reversal::NothingToDo);
        }
        system.run(&["gpasswd", "--delete", &self.user, &self.group])?;
        Ok(Reversal::Reversed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_groups_are_parsed() {
        let entry = GroupEntry::parse;
        let members = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            entry("openuvr:x:998:ada,bob\n"),
            Some(GroupEntry {
                id: 998,
                members: members(&["ada", "bob"])
            })
        );
        assert_eq!(
            entry("openuvr:x:998:\n").unwrap().members,
            Vec::<String>::new()
        );
        assert_eq!(entry("openuvr:x"), None);
        assert_eq!(entry(""), None);
    }
}
