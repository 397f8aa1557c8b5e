//! Input devices and action states. At each `xrSyncActions`, selects the bindings in effect, reads their components,
//! and computes the states (OpenXR 1.0, sections 11.5 to 11.8).
//!
//! ```text
//! devices: /user/hand/left has oculus/touch_controller, its trigger is at 0.7
//!    │ bindings suggested for that profile
//!    ▼
//! actions of the active sets; for a shared component only the set of the highest priority
//!    │ OR of booleans, float of the largest magnitude, longest vector
//!    ▼
//! a state for each action and each top level user path, constant until the next xrSyncActions
//! ```

use std::collections::{BTreeMap, HashMap, HashSet};

use openuvr_proto::time::Instant;
use openxr_sys as xr;

use super::actions::{ActionId, Actions, SetId};
use super::paths::Paths;
use super::pose::Pose;
use super::profile_table::Profile;
use super::profiles::BoundSource;

/// Hysteresis of a float component that is bound to a boolean action (guess: as in most runtimes).
const PRESS_THRESHOLD: f32 = 0.7;
const RELEASE_THRESHOLD: f32 = 0.6;

/// Maximum number of component states of a device. No profile has that many components.
const MAX_COMPONENTS: usize = 256;

/// State of a component.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Value {
    Bool(bool),
    Float(f32),
    Vector2f([f32; 2]),
}

/// An input device at a top level user path.
#[derive(Clone, Debug, Default)]
struct Device {
    /// Path of its interaction profile.
    profile: String,
    is_active: bool,
    values: HashMap<String, Value>,
    /// Poses in the player's space.
    poses: HashMap<String, Pose>,
}

/// A binding in effect.
#[derive(Clone, PartialEq, Debug)]
struct Binding {
    action: ActionId,
    user: &'static str,
    /// The path that the application suggested.
    path: xr::Path,
    source: BoundSource,
}

/// An action set to synchronise, optionally for one subaction path only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ActiveSet {
    pub(crate) set: SetId,
    pub(crate) user: xr::Path,
}

/// The source of a pose action. It stays selected, even while its device is disconnected, until a device with another
/// interaction profile replaces this device.
#[derive(Clone, PartialEq, Debug)]
struct SelectedSource {
    user: &'static str,
    profile: String,
    component: String,
}

/// State of an action.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) value: Value,
    pub(crate) has_changed: bool,
    pub(crate) changed: Instant,
}

/// The input of a session.
#[derive(Debug, Default)]
pub(crate) struct Input {
    devices: BTreeMap<String, Device>,
    bindings: Vec<Binding>,
    /// States of active actions, by subaction path or `XR_NULL_PATH`.
    states: HashMap<(ActionId, xr::Path), State>,
    /// Sources of active pose and haptic actions.
    poses: HashMap<(ActionId, xr::Path), (&'static str, String)>,
    /// The selected source of each pose action that is queried without a subaction path. The first source in effect is
    /// selected, and stays selected as described for [`SelectedSource`].
    selected: HashMap<ActionId, SelectedSource>,
    /// The interaction profiles in effect since the last `xrSyncActions`.
    profiles: BTreeMap<&'static str, String>,
}

impl Input {
    /// Connects, replaces or disconnects a device.
    pub(crate) fn set_device(&mut self, user: &str, profile: &str, is_active: bool) {
        let device = self.devices.entry(user.to_owned()).or_default();
        if device.profile != profile {
            *device = Device::default();
            profile.clone_into(&mut device.profile);
        }
        device.is_active = is_active;
    }

    /// Sets the state of a component. The state takes effect at the next `xrSyncActions`.
    pub(crate) fn set_value(&mut self, user: &str, component: &str, value: Value) {
        let device = self.devices.entry(user.to_owned()).or_default();
        if device.values.len() < MAX_COMPONENTS || device.values.contains_key(component) {
            device.values.insert(component.to_owned(), value);
        }
    }

    /// Sets the pose of a component, in the player's space.
    pub(crate) fn set_pose(&mut self, user: &str, component: &str, pose: Option<Pose>) {
        let device = self.devices.entry(user.to_owned()).or_default();
        match pose {
            None => drop(device.poses.remove(component)),
            Some(pose) if device.poses.len() < MAX_COMPONENTS => {
                device.poses.insert(component.to_owned(), pose);
            }
            Some(_) => {}
        }
    }

    /// Sets the pose of a component that has no pose yet.
    pub(crate) fn set_default_pose(&mut self, user: &str, component: &str, pose: Pose) {
        let known = |device: &Device| device.poses.contains_key(component);
        if !self.devices.get(user).is_some_and(known) {
            self.set_pose(user, component, Some(pose));
        }
    }

    /// `xrSyncActions`. Returns whether an interaction profile has changed.
    pub(crate) fn sync(
        &mut self,
        active: &[ActiveSet],
        attached: &[SetId],
        (actions, paths): (&Actions, &mut Paths),
        now: Instant,
    ) -> bool {
        let before = self.profiles.clone();
        self.bind(attached, actions, paths);
        let effective_bindings = self.effective_bindings(active, actions, paths);
        let mut states = HashMap::new();
        let mut poses = HashMap::new();
        for binding in &effective_bindings {
            let action = binding.action;
            let user = paths.number(binding.user).unwrap_or(xr::Path::NULL);
            for key in [(action, user), (action, xr::Path::NULL)] {
                match &binding.source {
                    BoundSource::Pose(component) if key.1 == xr::Path::NULL => {
                        if self.is_selected_source(action, binding.user, component) {
                            poses.insert(key, (binding.user, component.clone()));
                        }
                    }
                    BoundSource::Pose(component) | BoundSource::Haptic(component) => {
                        poses
                            .entry(key)
                            .or_insert((binding.user, component.clone()));
                    }
                    source => {
                        let previous = self.states.get(&key).map(|state| state.value);
                        if let Some(value) = self.read(binding.user, source, previous) {
                            let known = states.entry(key).or_insert(value);
                            *known = combined(*known, value);
                        }
                    }
                }
            }
        }
        let old = std::mem::take(&mut self.states);
        self.states = states
            .into_iter()
            .map(|(key, value)| (key, with_change(old.get(&key), value, now)))
            .collect();
        self.poses = poses;
        before != self.profiles
    }

    /// Whether this is the selected source of a pose action that is queried without a subaction path.
    fn is_selected_source(
        &mut self,
        action: ActionId,
        user: &'static str,
        component: &str,
    ) -> bool {
        let profile = |user: &str| {
            let device = self.devices.get(user).filter(|device| device.is_active);
            device.map(|device| device.profile.clone())
        };
        let is_there = |selected: &SelectedSource| {
            profile(selected.user).is_none_or(|current| current == selected.profile)
        };
        if !self.selected.get(&action).is_some_and(is_there) {
            let selected = SelectedSource {
                user,
                profile: profile(user).unwrap_or_default(),
                component: component.to_owned(),
            };
            self.selected.insert(action, selected);
        }
        let selected = self.selected.get(&action);
        selected.is_some_and(|selected| selected.user == user && selected.component == component)
    }

    /// Collects the bindings suggested for the active devices.
    fn bind(&mut self, attached: &[SetId], actions: &Actions, paths: &Paths) {
        self.bindings.clear();
        self.profiles.clear();
        for (user, device) in self.devices.iter().filter(|(_, device)| device.is_active) {
            let Some(profile) = Profile::find(&device.profile) else {
                continue;
            };
            for (action, path) in actions.suggested(&device.profile, paths) {
                let Ok(text) = paths.text(path) else { continue };
                let Some((user_path, kind)) = profile.user_of(text).zip(actions.kind(action))
                else {
                    continue;
                };
                if user_path != user || !attached.contains(&action.0) {
                    continue;
                }
                self.profiles.insert(user_path, device.profile.clone());
                if let Some(source) = profile.source(text, kind) {
                    self.bindings.push(Binding {
                        action,
                        user: user_path,
                        path,
                        source,
                    });
                }
            }
        }
    }

    /// The bindings of active sets, except those suppressed by a set of higher priority.
    fn effective_bindings(
        &self,
        active: &[ActiveSet],
        actions: &Actions,
        paths: &Paths,
    ) -> Vec<Binding> {
        let is_active = |binding: &&Binding| {
            active.iter().any(|set| {
                let everywhere = set.user == xr::Path::NULL;
                let here = || paths.text(set.user) == Ok(binding.user);
                set.set == binding.action.0
                    && (everywhere || here())
                    && actions.accepts(binding.action, binding.user, paths)
            })
        };
        let all: Vec<&Binding> = self.bindings.iter().filter(is_active).collect();
        let mut highest: HashMap<(&str, &str), u32> = HashMap::new();
        for binding in &all {
            let priority = actions.priority(binding.action.0);
            for component in binding.source.components() {
                let known = highest
                    .entry((binding.user, identifier(component)))
                    .or_default();
                *known = priority.max(*known);
            }
        }
        let counts = |binding: &&&Binding| {
            let priority = actions.priority(binding.action.0);
            let mut components = binding.source.components().into_iter();
            // A pose binding is never suppressed, because several action sets may read the same pose.
            matches!(binding.source, BoundSource::Pose(_))
                || components.all(|component| {
                    highest.get(&(binding.user, identifier(component))) == Some(&priority)
                })
        };
        all.iter()
            .filter(counts)
            .map(|binding| (*binding).clone())
            .collect()
    }

    /// Reads the state of a component. The state is zero before the device's first report.
    fn read(&self, user: &str, source: &BoundSource, previous: Option<Value>) -> Option<Value> {
        let device = self.devices.get(user)?;
        let number = |component: &String| match device.values.get(component) {
            Some(Value::Float(number)) => *number,
            Some(Value::Bool(true)) => 1.0,
            _ => 0.0,
        };
        match source {
            BoundSource::Bool(component) => Some(Value::Bool(match device.values.get(component) {
                Some(Value::Bool(pressed)) => *pressed,
                Some(Value::Float(number)) => {
                    let least = if previous == Some(Value::Bool(true)) {
                        RELEASE_THRESHOLD
                    } else {
                        PRESS_THRESHOLD
                    };
                    *number >= least
                }
                _ => false,
            })),
            BoundSource::Float(component) => Some(Value::Float(number(component))),
            BoundSource::Vector2f(whole, [x, y]) => {
                Some(Value::Vector2f(match device.values.get(whole) {
                    Some(Value::Vector2f(pair)) => *pair,
                    _ => [number(x), number(y)],
                }))
            }
            BoundSource::Pose(_) | BoundSource::Haptic(_) => None,
        }
    }

    /// The state of an action; `None` if it is inactive.
    pub(crate) fn state(&self, action: ActionId, user: xr::Path) -> Option<State> {
        self.states.get(&(action, user)).copied()
    }

    /// The top level user path and component of a pose or haptic action; `None` if the action is inactive.
    pub(crate) fn pose_source(
        &self,
        action: ActionId,
        user: xr::Path,
    ) -> Option<(&'static str, &str)> {
        let (user, component) = self.poses.get(&(action, user))?;
        Some((*user, component.as_str()))
    }

    /// The pose of the component to which a pose action is bound.
    pub(crate) fn pose(&self, action: ActionId, user: xr::Path) -> Option<Pose> {
        let (user, component) = self.pose_source(action, user)?;
        let device = self.devices.get(user).filter(|device| device.is_active)?;
        device.poses.get(component).copied()
    }

    /// The paths of the sources to which an action is bound.
    pub(crate) fn sources(&self, action: ActionId) -> Vec<xr::Path> {
        let mut seen = HashSet::new();
        let own = self.bindings.iter().filter(|b| b.action == action);
        own.map(|b| b.path)
            .filter(|path| seen.insert(*path))
            .collect()
    }

    /// The top level user paths at which a haptic action is bound: only `user`, or all of them for `XR_NULL_PATH`.
    pub(crate) fn haptic_users(&self, action: ActionId, user: xr::Path) -> Vec<&'static str> {
        let own = |binding: &&Binding| {
            binding.action == action && matches!(binding.source, BoundSource::Haptic(_))
        };
        let here = self.pose_source(action, user).map(|(user, _)| user);
        let mut users: Vec<_> = (self.bindings.iter().filter(own))
            .map(|binding| binding.user)
            .filter(|bound| here.is_some() && (user == xr::Path::NULL || here == Some(*bound)))
            .collect();
        users.dedup();
        users
    }

    /// The interaction profile in effect at a top level user path.
    pub(crate) fn profile(&self, user: &str) -> Option<&str> {
        self.profiles.get(user).map(String::as_str)
    }
}

/// The identifier of a component. For example, `/input/trigger` is the identifier of the trigger's value and of its
/// touch.
fn identifier(component: &str) -> &str {
    let mut ends = component.match_indices('/').map(|(at, _)| at);
    // The part before the third slash, as in `/input/trigger/value`.
    ends.nth(2).map_or(component, |end| &component[..end])
}

/// Combines the states of two sources of an action.
fn combined(a: Value, b: Value) -> Value {
    let length = |[x, y]: [f32; 2]| x * x + y * y;
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Value::Bool(a || b),
        (Value::Float(a), Value::Float(b)) => Value::Float(if b.abs() > a.abs() { b } else { a }),
        (Value::Vector2f(a), Value::Vector2f(b)) => {
            Value::Vector2f(if length(b) > length(a) { b } else { a })
        }
        // Never happens: all sources of an action have the same type.
        _ => a,
    }
}

fn with_change(old: Option<&State>, value: Value, now: Instant) -> State {
    match old {
        Some(old) if old.value == value => State {
            has_changed: false,
            ..*old
        },
        Some(_) => State {
            value,
            has_changed: true,
            changed: now,
        },
        None => {
            let rest = match value {
                Value::Bool(_) => Value::Bool(false),
                Value::Float(_) => Value::Float(0.0),
                Value::Vector2f(_) => Value::Vector2f([0.0; 2]),
            };
            State {
                value,
                has_changed: value != rest,
                changed: now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::actions::ActionInfo;
    use super::*;

    const TOUCH: &str = "/interaction_profiles/oculus/touch_controller";
    const SIMPLE: &str = "/interaction_profiles/khr/simple_controller";
    const LEFT: &str = "/user/hand/left";
    const RIGHT: &str = "/user/hand/right";

    /// An application with action sets, and its player.
    #[derive(Default)]
    struct Game {
        actions: Actions,
        paths: Paths,
        input: Input,
        sets: Vec<SetId>,
        now: i64,
    }

    impl Game {
        fn set(&mut self, name: &str, priority: u32) -> SetId {
            let set = self
                .actions
                .create_set(name.to_owned(), name.to_owned(), priority);
            self.sets.push(set.unwrap());
            set.unwrap()
        }

        fn path(&mut self, text: &str) -> xr::Path {
            self.paths.number(text).unwrap()
        }

        fn action(&mut self, set: SetId, name: &str, kind: xr::ActionType) -> ActionId {
            let subaction_paths = [LEFT, RIGHT].map(|user| self.path(user)).to_vec();
            let new = ActionInfo {
                name: name.to_owned(),
                localized: name.to_owned(),
                kind,
                subaction_paths,
            };
            self.actions.create(set, new, &self.paths).unwrap()
        }

        fn suggest(&mut self, profile: &str, bindings: &[(ActionId, &str)]) {
            let bindings = bindings
                .iter()
                .map(|(action, path)| (*action, self.paths.number(path).unwrap()));
            let bindings = bindings.collect();
            let profile = self.path(profile);
            self.actions
                .suggest(profile, bindings, &self.paths)
                .unwrap();
        }

        /// Synchronises these sets. Returns whether an interaction profile has changed.
        fn sync(&mut self, sets: &[SetId]) -> bool {
            self.now += 1;
            let active: Vec<_> = sets
                .iter()
                .map(|set| ActiveSet {
                    set: *set,
                    user: xr::Path::NULL,
                })
                .collect();
            let of = (&self.actions, &mut self.paths);
            self.input.sync(&active, &self.sets, of, Instant(self.now))
        }

        fn state(&mut self, action: ActionId, user: Option<&str>) -> Option<(Value, bool, i64)> {
            let user = user.map_or(xr::Path::NULL, |user| self.path(user));
            let state = self.input.state(action, user)?;
            Some((state.value, state.has_changed, state.changed.0))
        }
    }

    #[test]
    fn actions_are_active_with_a_device() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let grab = game.action(set, "grab", xr::ActionType::FLOAT_INPUT);
        let trigger = |user: &str| format!("{user}/input/trigger/value");
        let (left, right) = (trigger(LEFT), trigger(RIGHT));
        game.suggest(TOUCH, &[(grab, left.as_str()), (grab, right.as_str())]);
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), None);
        game.input.set_device(LEFT, TOUCH, true);
        assert!(game.sync(&[set]), "the device is new");
        assert_eq!(game.input.profile(LEFT), Some(TOUCH));
        assert_eq!(
            game.state(grab, Some(LEFT)),
            Some((Value::Float(0.0), false, 2))
        );
        assert_eq!(game.state(grab, Some(RIGHT)), None);
        game.input
            .set_value(LEFT, "/input/trigger/value", Value::Float(0.5));
        assert_eq!(
            game.state(grab, None),
            Some((Value::Float(0.0), false, 2)),
            "unchanged before the next sync"
        );
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Float(0.5), true, 3)));
        assert!(!game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Float(0.5), false, 3)));
        // The larger of two values counts.
        game.input.set_device(RIGHT, TOUCH, true);
        game.input
            .set_value(RIGHT, "/input/trigger/value", Value::Float(0.8));
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, None), Some((Value::Float(0.8), true, 5)));
        // Without focus, or without an active set, no action is active.
        assert!(!game.sync(&[]));
        assert_eq!(game.state(grab, None), None);
        game.input.set_device(LEFT, TOUCH, false);
        assert!(game.sync(&[set]));
        assert_eq!(game.state(grab, Some(LEFT)), None);
        assert_eq!(game.input.sources(grab).len(), 1);
    }

    #[test]
    fn a_trigger_as_a_boolean_has_hysteresis() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let fire = game.action(set, "fire", xr::ActionType::BOOLEAN_INPUT);
        game.suggest(TOUCH, &[(fire, "/user/hand/left/input/trigger")]);
        game.input.set_device(LEFT, TOUCH, true);
        for (pulled, pressed) in [(0.65, false), (0.75, true), (0.65, true), (0.5, false)] {
            game.input
                .set_value(LEFT, "/input/trigger/value", Value::Float(pulled));
            game.sync(&[set]);
            let value = game.state(fire, Some(LEFT)).map(|(value, ..)| value);
            assert_eq!(value, Some(Value::Bool(pressed)), "{pulled}");
        }
    }

    #[test]
    fn a_shared_source_goes_to_the_higher_priority() {
        let mut game = Game::default();
        let (walk, menu) = (game.set("walk", 0), game.set("menu", 5));
        let jump = game.action(walk, "jump", xr::ActionType::BOOLEAN_INPUT);
        let choose = game.action(menu, "choose", xr::ActionType::BOOLEAN_INPUT);
        let hand = game.action(walk, "hand", xr::ActionType::POSE_INPUT);
        let select = "/user/hand/left/input/select/click";
        game.suggest(
            SIMPLE,
            &[
                (jump, select),
                (choose, select),
                (hand, "/user/hand/left/input/grip/pose"),
            ],
        );
        game.input.set_device(LEFT, SIMPLE, true);
        game.input
            .set_value(LEFT, "/input/select/click", Value::Bool(true));
        game.sync(&[walk]);
        assert!(game.state(jump, None).is_some() && game.state(choose, None).is_none());
        game.sync(&[walk, menu]);
        assert!(game.state(jump, None).is_none() && game.state(choose, None).is_some());
        assert!(
            game.input.pose_source(hand, xr::Path::NULL).is_some(),
            "a pose is shared"
        );
    }

    #[test]
    fn a_pose_action_keeps_its_first_source() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let hand = game.action(set, "hand", xr::ActionType::POSE_INPUT);
        let grips = [
            (hand, "/user/hand/left/input/grip/pose"),
            (hand, "/user/hand/right/input/grip/pose"),
        ];
        game.suggest(SIMPLE, &grips);
        game.suggest(TOUCH, &grips[1..]);
        let poses = [(LEFT, -1.0), (RIGHT, 1.0)].map(|(user, x)| {
            let pose = Pose::translation([x, 0.0, 0.0]);
            game.input.set_device(user, SIMPLE, true);
            game.input.set_pose(user, "/input/grip/pose", Some(pose));
            pose
        });
        let whole = xr::Path::NULL;
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(poses[0]));
        game.input.set_device(LEFT, SIMPLE, false);
        for _ in 0..2 {
            assert_eq!(game.input.pose(hand, whole), None, "not the other hand");
            let right = game.path(RIGHT);
            assert_eq!(game.input.pose(hand, right), Some(poses[1]));
            game.sync(&[set]);
        }
        game.input.set_device(LEFT, SIMPLE, true);
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(poses[0]));
        // A different device, without suggested bindings, at the same path.
        game.input.set_device(LEFT, TOUCH, true);
        game.sync(&[set]);
        assert_eq!(game.input.pose(hand, whole), Some(poses[1]));
    }

    #[test]
    fn thumbsticks_and_poses_are_read() {
        let mut game = Game::default();
        let set = game.set("game", 0);
        let walk = game.action(set, "walk", xr::ActionType::VECTOR2F_INPUT);
        let hand = game.action(set, "hand", xr::ActionType::POSE_INPUT);
        game.suggest(
            TOUCH,
            &[
                (walk, "/user/hand/right/input/thumbstick"),
                (hand, "/user/hand/right/input/aim"),
            ],
        );
        game.input.set_device(RIGHT, TOUCH, true);
        game.input
            .set_value(RIGHT, "/input/thumbstick/y", Value::Float(-1.0));
        let ahead = Pose::translation([0.0, 0.0, -1.0]);
        game.input.set_pose(RIGHT, "/input/aim/pose", Some(ahead));
        game.sync(&[set]);
        assert_eq!(
            game.state(walk, None),
            Some((Value::Vector2f([0.0, -1.0]), true, 1))
        );
        let right = game.path(RIGHT);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        assert_eq!(game.input.pose(hand, xr::Path::NULL), Some(ahead));
        let elsewhere = Pose::translation([0.0, 1.0, 0.0]);
        game.input
            .set_default_pose(RIGHT, "/input/aim/pose", elsewhere);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        game.input.set_device(RIGHT, TOUCH, false);
        assert_eq!(game.input.pose(hand, right), None, "disconnected");
        game.input.set_device(RIGHT, TOUCH, true);
        assert_eq!(game.input.pose(hand, right), Some(ahead));
        game.input.set_pose(RIGHT, "/input/aim/pose", None);
        assert_eq!(
            game.input.pose(hand, right),
            None,
            "no pose, but the action is active"
        );
        assert!(game.input.pose_source(hand, right).is_some());
    }
}
