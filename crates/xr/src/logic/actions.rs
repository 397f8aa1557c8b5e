//! Actions, action sets and suggested bindings (OpenXR 1.0, section 11): naming rules and attachment. `input.rs` evaluates
//! the bindings.

use std::collections::{BTreeMap, BTreeSet};

use openxr_sys as xr;

use super::paths::{Paths, is_name};
use super::profile_table::Profile;
use super::profiles::USER_PATHS;
use crate::ffi::Outcome;

/// Maximum number of action sets of an instance, and of actions of a set (guess: engines have some dozens).
const MAX_ACTIONS: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SetId(u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ActionId(pub(crate) SetId, u64);

/// Parameters of an action.
#[derive(Clone, Debug)]
pub(crate) struct ActionInfo {
    pub(crate) name: String,
    pub(crate) localized: String,
    pub(crate) kind: xr::ActionType,
    pub(crate) subaction_paths: Vec<xr::Path>,
}

#[derive(Debug)]
struct Set {
    name: String,
    localized: String,
    /// If several sets are bound to the same input source, the set with the highest priority gets the input.
    priority: u32,
    /// Whether the set is attached to a session. An attached set is immutable.
    attached: bool,
    actions: BTreeMap<ActionId, ActionInfo>,
}

/// The actions of an instance.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    /// Whether the instance has OpenXR version 1.1, which adds interaction profiles.
    is_1_1: bool,
    newest: u64,
    sets: BTreeMap<SetId, Set>,
    /// The suggested bindings, by interaction profile path.
    suggested: BTreeMap<xr::Path, Vec<(ActionId, xr::Path)>>,
}

fn check_names(name: &str, localized: &str) -> Outcome<()> {
    match () {
        () if name.is_empty() => Err(xr::Result::ERROR_NAME_INVALID),
        () if !is_name(name) => Err(xr::Result::ERROR_PATH_FORMAT_INVALID),
        () if localized.is_empty() => Err(xr::Result::ERROR_LOCALIZED_NAME_INVALID),
        () => Ok(()),
    }
}

impl Actions {
    /// Creates the actions for an instance of OpenXR 1.1 or 1.0.
    pub(crate) fn new(is_1_1: bool) -> Actions {
        Actions {
            is_1_1,
            ..Actions::default()
        }
    }

    fn number(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    /// `xrCreateActionSet`.
    pub(crate) fn create_set(
        &mut self,
        name: String,
        localized: String,
        priority: u32,
    ) -> Outcome<SetId> {
        check_names(&name, &localized)?;
        if self.sets.values().any(|set| set.name == name) {
            return Err(xr::Result::ERROR_NAME_DUPLICATED);
        }
        if self.sets.values().any(|set| set.localized == localized) {
            return Err(xr::Result::ERROR_LOCALIZED_NAME_DUPLICATED);
        }
        if self.sets.len() >= MAX_ACTIONS {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        let id = SetId(self.number());
        let set = Set {
            name,
            localized,
            priority,
            attached: false,
            actions: BTreeMap::new(),
        };
        self.sets.insert(id, set);
        Ok(id)
    }

    /// `xrDestroyActionSet`. The names of the set become available again.
    pub(crate) fn destroy_set(&mut self, set: SetId) {
        self.sets.remove(&set);
    }

    /// `xrCreateAction`.
    pub(crate) fn create(
        &mut self,
        set: SetId,
        action: ActionInfo,
        paths: &Paths,
    ) -> Outcome<ActionId> {
        check_names(&action.name, &action.localized)?;
        let mut seen = BTreeSet::new();
        for user in &action.subaction_paths {
            let known = USER_PATHS.contains(&paths.text(*user)?);
            if !known || !seen.insert(*user) {
                return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
            }
        }
        let id = ActionId(set, self.number());
        let set = self.sets.get_mut(&set);
        let set = set.ok_or(xr::Result::ERROR_HANDLE_INVALID)?;
        if set.attached {
            return Err(xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED);
        }
        let mut others = set.actions.values();
        if others.any(|other| other.name == action.name) {
            return Err(xr::Result::ERROR_NAME_DUPLICATED);
        }
        let mut others = set.actions.values();
        if others.any(|other| other.localized == action.localized) {
            return Err(xr::Result::ERROR_LOCALIZED_NAME_DUPLICATED);
        }
        if set.actions.len() >= MAX_ACTIONS {
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        set.actions.insert(id, action);
        Ok(id)
    }

    /// `xrDestroyAction`. Sessions that have attached its set keep the action.
    pub(crate) fn destroy(&mut self, action: ActionId) {
        if let Some(set) = self.sets.get_mut(&action.0)
            && !set.attached
        {
            set.actions.remove(&action);
        }
    }

    fn action(&self, action: ActionId) -> Outcome<&ActionInfo> {
        let set = self.sets.get(&action.0);
        set.and_then(|set| set.actions.get(&action))
            .ok_or(xr::Result::ERROR_HANDLE_INVALID)
    }

    /// `xrSuggestInteractionProfileBindings`. Replaces earlier suggestions for the profile.
    pub(crate) fn suggest(
        &mut self,
        profile: xr::Path,
        bindings: Vec<(ActionId, xr::Path)>,
        paths: &Paths,
    ) -> Outcome<()> {
        let found = Profile::find(paths.text(profile)?);
        let found = found.filter(|profile| self.is_1_1 || !profile.requires_1_1());
        let found = found.ok_or(xr::Result::ERROR_PATH_UNSUPPORTED)?;
        for (action, path) in &bindings {
            self.action(*action)?;
            // A component whose type differs from the action's type is accepted but never bound: the conformance suite
            // suggests such bindings.
            if !found.has(paths.text(*path)?, self.is_1_1) {
                return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
            }
            if self.sets.get(&action.0).is_some_and(|set| set.attached) {
                return Err(xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED);
            }
        }
        self.suggested.insert(profile, bindings);
        Ok(())
    }

    /// The bindings suggested for a profile.
    pub(crate) fn suggested(&self, profile: &str, paths: &Paths) -> Vec<(ActionId, xr::Path)> {
        let mut all = self.suggested.iter();
        let found = all.find(|(path, _)| paths.text(**path) == Ok(profile));
        found.map_or(Vec::new(), |(_, bindings)| bindings.clone())
    }

    pub(crate) fn kind(&self, action: ActionId) -> Option<xr::ActionType> {
        self.action(action).ok().map(|action| action.kind)
    }

    pub(crate) fn priority(&self, set: SetId) -> u32 {
        self.sets.get(&set).map_or(0, |set| set.priority)
    }

    /// Whether an action accepts input from this top level user path. It does if the path is one of its subaction
    /// paths, or if it has no subaction paths.
    pub(crate) fn accepts(&self, action: ActionId, user: &str, paths: &Paths) -> bool {
        self.action(action).is_ok_and(|action| {
            let mut subaction_paths = action.subaction_paths.iter();
            action.subaction_paths.is_empty()
                || subaction_paths.any(|of| paths.text(*of) == Ok(user))
        })
    }

    /// `xrAttachSessionActionSets`, for a session that has no attached sets yet. Makes the sets immutable.
    pub(crate) fn attach(&mut self, sets: &[SetId]) -> Outcome<()> {
        if sets.iter().any(|set| !self.sets.contains_key(set)) {
            return Err(xr::Result::ERROR_HANDLE_INVALID);
        }
        for set in sets {
            self.sets.entry(*set).and_modify(|set| set.attached = true);
        }
        Ok(())
    }

    /// Checks that at least one action of the set has this subaction path; `XR_NULL_PATH` is always valid.
    pub(crate) fn check_set_path(&self, set: SetId, user: xr::Path, paths: &Paths) -> Outcome<()> {
        if user == xr::Path::NULL {
            return Ok(());
        }
        paths.text(user)?;
        let set = self.sets.get(&set);
        let set = set.ok_or(xr::Result::ERROR_HANDLE_INVALID)?;
        match set
            .actions
            .values()
            .any(|a| a.subaction_paths.contains(&user))
        {
            true => Ok(()),
            false => Err(xr::Result::ERROR_PATH_UNSUPPORTED),
        }
    }

    /// Checks an action's type, and that it has this subaction path; `XR_NULL_PATH` is always valid.
    pub(crate) fn check(
        &self,
        action: ActionId,
        kind: xr::ActionType,
        user: xr::Path,
        paths: &Paths,
    ) -> Outcome<()> {
        let known = self.action(action)?;
        if user != xr::Path::NULL {
            paths.text(user)?;
            if !known.subaction_paths.contains(&user) {
                return Err(xr::Result::ERROR_PATH_UNSUPPORTED);
            }
        }
        match known.kind == kind {
            true => Ok(()),
            false => Err(xr::Result::ERROR_ACTION_TYPE_MISMATCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(name: &str, kind: xr::ActionType, subaction_paths: &[xr::Path]) -> ActionInfo {
        ActionInfo {
            name: name.to_owned(),
            localized: format!("The {name}"),
            kind,
            subaction_paths: subaction_paths.to_vec(),
        }
    }

    fn set(actions: &mut Actions, name: &str) -> Outcome<SetId> {
        actions.create_set(name.to_owned(), format!("The {name}"), 0)
    }

    const BOOLEAN: xr::ActionType = xr::ActionType::BOOLEAN_INPUT;
    const POSE: xr::ActionType = xr::ActionType::POSE_INPUT;

    #[test]
    fn names_are_checked_and_unique() {
        let (mut actions, paths) = (Actions::default(), Paths::default());
        let game = set(&mut actions, "game").unwrap();
        let duplicated = Some(xr::Result::ERROR_NAME_DUPLICATED);
        assert_eq!(set(&mut actions, "game").err(), duplicated);
        let mut create = |name: &str, localized: &str| {
            let mut new = action(name, BOOLEAN, &[]);
            localized.clone_into(&mut new.localized);
            actions.create(game, new, &paths).err()
        };
        assert_eq!(create("jump", "Jump"), None);
        assert_eq!(create("jump", "Jump too"), duplicated);
        let same = Some(xr::Result::ERROR_LOCALIZED_NAME_DUPLICATED);
        assert_eq!(create("leap", "Jump"), same);
        assert_eq!(create("", "x"), Some(xr::Result::ERROR_NAME_INVALID));
        let form = Some(xr::Result::ERROR_PATH_FORMAT_INVALID);
        assert_eq!(create("Leap", "x"), form);
        let empty = Some(xr::Result::ERROR_LOCALIZED_NAME_INVALID);
        assert_eq!(create("leap", ""), empty);
        actions.destroy_set(game);
        assert!(
            set(&mut actions, "game").is_ok(),
            "its name is available again"
        );
    }

    #[test]
    fn bindings_must_belong_to_their_profile() {
        let (mut actions, mut paths) = (Actions::default(), Paths::default());
        let game = set(&mut actions, "game").unwrap();
        let mut path = |text: &str| paths.number(text).unwrap();
        let simple = path("/interaction_profiles/khr/simple_controller");
        let unknown = path("/interaction_profiles/acme/glove");
        let left = path("/user/hand/left");
        let click = path("/user/hand/left/input/select/click");
        let grip = path("/user/hand/left/input/grip/pose");
        let trigger = path("/user/hand/left/input/trigger/value");
        let mut make = |name, kind| {
            actions
                .create(game, action(name, kind, &[left]), &paths)
                .unwrap()
        };
        let (jump, hand) = (make("jump", BOOLEAN), make("hand", POSE));
        let mut suggest = |profile, action, path| {
            let all = vec![(action, path)];
            actions.suggest(profile, all, &paths).err()
        };
        let unsupported = Some(xr::Result::ERROR_PATH_UNSUPPORTED);
        assert_eq!(suggest(simple, jump, click), None);
        assert_eq!(suggest(simple, hand, grip), None);
        assert_eq!(
            suggest(simple, jump, grip),
            None,
            "accepted, but never bound"
        );
        assert_eq!(suggest(simple, jump, trigger), unsupported);
        assert_eq!(suggest(unknown, jump, click), unsupported);
        let invalid = Some(xr::Result::ERROR_PATH_INVALID);
        assert_eq!(suggest(xr::Path::from_raw(99), jump, click), invalid);
        actions.attach(&[game]).unwrap();
        let mut suggest = |action| {
            let all = vec![(action, click)];
            actions.suggest(simple, all, &paths).err()
        };
        let late = Some(xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED);
        assert_eq!(suggest(jump), late);
    }

    #[test]
    fn an_attached_set_is_immutable() {
        let (mut actions, mut paths) = (Actions::default(), Paths::default());
        let game = set(&mut actions, "game").unwrap();
        let left = paths.number("/user/hand/left").unwrap();
        let right = paths.number("/user/hand/right").unwrap();
        let jump = action("jump", BOOLEAN, &[left]);
        let jump = actions.create(game, jump, &paths).unwrap();
        actions.attach(&[game]).unwrap();
        let late = actions.create(game, action("late", BOOLEAN, &[]), &paths);
        let attached = Some(xr::Result::ERROR_ACTIONSETS_ALREADY_ATTACHED);
        assert_eq!(late.err(), attached);
        actions.destroy(jump);
        let check = |kind, user| actions.check(jump, kind, user, &paths).err();
        assert_eq!(check(BOOLEAN, left), None);
        assert_eq!(check(BOOLEAN, xr::Path::NULL), None);
        let unsupported = Some(xr::Result::ERROR_PATH_UNSUPPORTED);
        assert_eq!(check(BOOLEAN, right), unsupported);
        let mismatch = Some(xr::Result::ERROR_ACTION_TYPE_MISMATCH);
        assert_eq!(check(POSE, left), mismatch);
    }

    #[test]
    fn subaction_paths_are_checked() {
        let (mut actions, mut paths) = (Actions::default(), Paths::default());
        let game = set(&mut actions, "game").unwrap();
        let left = paths.number("/user/hand/left").unwrap();
        let elsewhere = paths.number("/user/foot/left").unwrap();
        let mut create = |subaction_paths: &[xr::Path]| {
            let new = action("jump", BOOLEAN, subaction_paths);
            actions.create(game, new, &paths).err()
        };
        let unsupported = Some(xr::Result::ERROR_PATH_UNSUPPORTED);
        assert_eq!(create(&[elsewhere]), unsupported);
        assert_eq!(create(&[left, left]), unsupported);
        let invalid = Some(xr::Result::ERROR_PATH_INVALID);
        assert_eq!(create(&[xr::Path::from_raw(77)]), invalid);
    }
}
