//! The interaction profiles that bindings may be suggested for: those of OpenXR 1.0, section 6.4, all of
//! which a runtime has to take, whatever its player holds; and what actions read of them.

use openxr_sys as xr;

/// What an action reads of a device, or tells it. Places are named behind the person's, as `/input/trigger/value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// Pressed, or pulled far enough.
    Bool(String),
    Number(String),
    /// Both axes in one, or each by itself.
    Pair(String, [String; 2]),
    Pose(String),
    Haptic(String),
}

impl Reading {
    /// The places that it needs for itself.
    pub(crate) fn places(&self) -> Vec<&str> {
        match self {
            Reading::Bool(place)
            | Reading::Number(place)
            | Reading::Pair(place, _)
            | Reading::Pose(place)
            | Reading::Haptic(place) => vec![place],
        }
    }
}

/// A device, or a pair of them.
pub(crate) struct Profile {
    /// Behind `/interaction_profiles/`.
    name: &'static str,
    /// The places of the person that have all of `both`.
    users: &'static [&'static str],
    both: &'static [&'static str],
    /// What only one of the two places has.
    left: &'static [&'static str],
    right: &'static [&'static str],
}

const HANDS: &[&str] = &["/user/hand/left", "/user/hand/right"];

/// The places of a person that have devices.
pub(crate) const USERS: [&str; 5] = [
    "/user/hand/left",
    "/user/hand/right",
    "/user/head",
    "/user/gamepad",
    "/user/treadmill",
];

const NONE: &[&str] = &[];

const PROFILES: [Profile; 9] = [
    Profile {
        name: "khr/simple_controller",
        users: HANDS,
        both: &[
            "input/select/click",
            "input/menu/click",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "google/daydream_controller",
        users: HANDS,
        both: &[
            "input/select/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "htc/vive_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/squeeze/click",
            "input/menu/click",
            "input/trigger/click",
            "input/trigger/value",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "htc/vive_pro",
        users: &["/user/head"],
        both: &[
            "input/system/click",
            "input/volume_up/click",
            "input/volume_down/click",
            "input/mute_mic/click",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "microsoft/motion_controller",
        users: HANDS,
        both: &[
            "input/menu/click",
            "input/squeeze/click",
            "input/trigger/value",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "microsoft/xbox_controller",
        users: &["/user/gamepad"],
        both: &[
            "input/menu/click",
            "input/view/click",
            "input/a/click",
            "input/b/click",
            "input/x/click",
            "input/y/click",
            "input/dpad_down/click",
            "input/dpad_right/click",
            "input/dpad_up/click",
            "input/dpad_left/click",
            "input/shoulder_left/click",
            "input/shoulder_right/click",
            "input/thumbstick_left/click",
            "input/thumbstick_right/click",
            "input/trigger_left/value",
            "input/trigger_right/value",
            "input/thumbstick_left/x",
            "input/thumbstick_left/y",
            "input/thumbstick_right/x",
            "input/thumbstick_right/y",
            "output/haptic_left",
            "output/haptic_right",
            "output/haptic_left_trigger",
            "output/haptic_right_trigger",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "oculus/go_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/trigger/click",
            "input/back/click",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/click",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
        ],
        left: NONE,
        right: NONE,
    },
    Profile {
        name: "oculus/touch_controller",
        users: HANDS,
        both: &[
            "input/squeeze/value",
            "input/trigger/value",
            "input/trigger/touch",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/thumbstick/touch",
            "input/thumbrest/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: &[
            "input/x/click",
            "input/x/touch",
            "input/y/click",
            "input/y/touch",
            "input/menu/click",
        ],
        right: &[
            "input/a/click",
            "input/a/touch",
            "input/b/click",
            "input/b/touch",
            "input/system/click",
        ],
    },
    Profile {
        name: "valve/index_controller",
        users: HANDS,
        both: &[
            "input/system/click",
            "input/system/touch",
            "input/a/click",
            "input/a/touch",
            "input/b/click",
            "input/b/touch",
            "input/squeeze/value",
            "input/squeeze/force",
            "input/trigger/click",
            "input/trigger/value",
            "input/trigger/touch",
            "input/thumbstick/x",
            "input/thumbstick/y",
            "input/thumbstick/click",
            "input/thumbstick/touch",
            "input/trackpad/x",
            "input/trackpad/y",
            "input/trackpad/force",
            "input/trackpad/touch",
            "input/grip/pose",
            "input/aim/pose",
            "output/haptic",
        ],
        left: NONE,
        right: NONE,
    },
];

impl Profile {
    /// The profile with this path.
    pub(crate) fn find(path: &str) -> Option<&'static Profile> {
        let name = path.strip_prefix("/interaction_profiles/")?;
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The person's place that a path begins with, if such a device is there.
    pub(crate) fn user_of(&self, path: &str) -> Option<&'static str> {
        let begins = |user: &&&str| {
            let rest = path.strip_prefix(**user);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.users.iter().find(begins).copied()
    }

    /// What there is at a person's place, as `input/trigger/value`.
    fn components(&self, user: &str) -> impl Iterator<Item = &'static str> {
        let own = match user {
            "/user/hand/left" => self.left,
            "/user/hand/right" => self.right,
            _ => NONE,
        };
        self.both.iter().chain(own).copied()
    }

    /// Whether there is something at a path, as `/user/hand/left/input/trigger/value`; its last part may be left to
    /// the runtime.
    pub(crate) fn has(&self, path: &str) -> bool {
        let Some(user) = self.user_of(path) else {
            return false;
        };
        let rest = &path[user.len() + 1..];
        // Of a place at least its name: `input` alone is none.
        rest.split('/').count() >= 2
            && self.components(user).any(|component| {
                let tail = component.strip_prefix(rest);
                tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
            })
    }

    /// What an action of this kind reads there; `None`: nothing that it could.
    pub(crate) fn reading(&self, path: &str, kind: xr::ActionType) -> Option<Reading> {
        let user = self.user_of(path)?;
        let rest = &path[user.len() + 1..];
        let there = |ends: &[&str]| {
            let exact = self.components(user).find(|c| *c == rest);
            let fits = |component: &&str| ends.iter().any(|end| component.ends_with(end));
            let named = || {
                let of = |end: &&str| {
                    let whole = format!("{rest}{end}");
                    self.components(user).find(|c| *c == whole)
                };
                ends.iter().find_map(of)
            };
            let found = exact.filter(fits).or_else(named)?;
            Some(format!("/{found}"))
        };
        match kind {
            xr::ActionType::BOOLEAN_INPUT => {
                there(&["/click", "/value", "/force", "/touch"]).map(Reading::Bool)
            }
            xr::ActionType::FLOAT_INPUT => {
                there(&["/value", "/force", "/x", "/y", "/click", "/touch"]).map(Reading::Number)
            }
            xr::ActionType::VECTOR2F_INPUT => {
                let axes = [format!("{rest}/x"), format!("{rest}/y")];
                let all = axes
                    .iter()
                    .all(|axis| self.components(user).any(|c| c == axis));
                all.then(|| Reading::Pair(format!("/{rest}"), axes.map(|axis| format!("/{axis}"))))
            }
            xr::ActionType::POSE_INPUT => there(&["/pose"]).map(Reading::Pose),
            xr::ActionType::VIBRATION_OUTPUT => {
                let is_output = rest.starts_with("output/");
                let found = self.components(user).find(|c| is_output && *c == rest)?;
                Some(Reading::Haptic(format!("/{found}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_may_be_named_by_their_place() {
        let touch = Profile::find("/interaction_profiles/oculus/touch_controller").unwrap();
        for there in [
            "/user/hand/left/input/trigger/value",
            "/user/hand/left/input/trigger",
            "/user/hand/left/input/thumbstick",
            "/user/hand/right/input/aim/pose",
            "/user/hand/right/input/aim",
            "/user/hand/left/output/haptic",
            "/user/hand/left/input/x/click",
        ] {
            assert!(touch.has(there), "{there}");
        }
        for none in [
            "/user/hand/right/input/x/click",
            "/user/hand/left/input/trigg",
            "/user/hand/left/input",
            "/user/hand/left",
            "/user/hand/leftover/input/trigger",
            "/user/head/input/system/click",
            "/user/hand/left/input/trigger/value/more",
        ] {
            assert!(!touch.has(none), "{none}");
        }
    }

    #[test]
    fn an_action_reads_what_is_of_its_kind() {
        let touch = Profile::find("/interaction_profiles/oculus/touch_controller").unwrap();
        let read = |rest: &str, kind| touch.reading(&format!("/user/hand/left/{rest}"), kind);
        let text = |place: &str| place.to_owned();
        let [boolean, float] = [xr::ActionType::BOOLEAN_INPUT, xr::ActionType::FLOAT_INPUT];
        let pulled = Some(Reading::Bool(text("/input/trigger/value")));
        assert_eq!(read("input/trigger", boolean), pulled);
        assert_eq!(read("input/trigger/value", boolean), pulled);
        let touched = Some(Reading::Bool(text("/input/trigger/touch")));
        assert_eq!(read("input/trigger/touch", boolean), touched);
        let number = Some(Reading::Number(text("/input/trigger/value")));
        assert_eq!(read("input/trigger", float), number);
        let axes = [text("/input/thumbstick/x"), text("/input/thumbstick/y")];
        let pair = Some(Reading::Pair(text("/input/thumbstick"), axes));
        let vector = xr::ActionType::VECTOR2F_INPUT;
        assert_eq!(read("input/thumbstick", vector), pair);
        assert_eq!(read("input/trigger", vector), None);
        let haptic = Some(Reading::Haptic(text("/output/haptic")));
        let vibration = xr::ActionType::VIBRATION_OUTPUT;
        assert_eq!(read("output/haptic", vibration), haptic);
        assert_eq!(read("output/haptic", xr::ActionType::POSE_INPUT), None);
        assert_eq!(read("input/grip/pose", vibration), None);
    }

    #[test]
    fn profiles_are_found_by_their_path() {
        for profile in &PROFILES {
            let path = format!("/interaction_profiles/{}", profile.name);
            assert_eq!(Profile::find(&path).map(|p| p.name), Some(profile.name));
        }
        assert!(Profile::find("/interaction_profiles/khr").is_none());
        assert!(Profile::find("khr/simple_controller").is_none());
    }
}
