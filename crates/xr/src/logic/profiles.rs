//! The interaction profiles for which an application may suggest bindings, and the components that actions read. A
//! runtime has to accept all profiles of the instance's OpenXR version, regardless of the player's devices.

use openxr_sys as xr;

use super::profile_table::{PROFILES_1_0, PROFILES_1_1, Profile};

/// Components that OpenXR 1.1 added to each hand in all profiles.
const HAND_1_1: &[&str] = &["input/grip_surface/pose"];

/// The profile for which OpenXR 1.1 has a separate list, `TOUCH_1_1`.
const TOUCH: &str = "oculus/touch_controller";
const TOUCH_1_1: &[&str] = &[
    "input/grip_surface/pose",
    "input/trigger/proximity",
    "input/thumb_resting_surfaces/proximity",
];

/// The source to which an action is bound. Component names omit the top level user path, as in `/input/trigger/value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BoundSource {
    /// A button, or a float component with a threshold.
    Bool(String),
    Float(String),
    /// A component that contains both axes, and the components of the x and y axes. The component with both axes takes
    /// precedence.
    Vector2f(String, [String; 2]),
    Pose(String),
    Haptic(String),
}

impl BoundSource {
    /// The components that the binding claims.
    pub(crate) fn components(&self) -> Vec<&str> {
        match self {
            BoundSource::Bool(component)
            | BoundSource::Float(component)
            | BoundSource::Vector2f(component, _)
            | BoundSource::Pose(component)
            | BoundSource::Haptic(component) => vec![component],
        }
    }
}

/// The top level user paths.
pub(crate) const USER_PATHS: [&str; 5] = [
    "/user/hand/left",
    "/user/hand/right",
    "/user/head",
    "/user/gamepad",
    "/user/treadmill",
];

impl Profile {
    pub(crate) fn find(path: &str) -> Option<&'static Profile> {
        let name = path.strip_prefix("/interaction_profiles/")?;
        let mut all = PROFILES_1_0.iter().chain(PROFILES_1_1);
        all.find(|profile| profile.name == name)
    }

    pub(crate) fn requires_1_1(&self) -> bool {
        PROFILES_1_1.iter().any(|profile| profile.name == self.name)
    }

    /// The components that OpenXR 1.1 added to a hand.
    fn components_1_1(&self, user: &str) -> &'static [&'static str] {
        match (user.starts_with("/user/hand/"), self.name) {
            (false, _) => &[],
            (true, TOUCH) => TOUCH_1_1,
            (true, _) => HAND_1_1,
        }
    }

    /// The top level user path at the start of a path; `None` if this profile does not have it.
    pub(crate) fn user_of(&self, path: &str) -> Option<&'static str> {
        let begins = |user: &&&str| {
            let rest = path.strip_prefix(**user);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        self.user_paths.iter().find(begins).copied()
    }

    /// The components at a top level user path, such as `input/trigger/value`.
    fn components(&self, user: &str) -> impl Iterator<Item = &'static str> {
        let own = match user {
            "/user/hand/left" => self.left,
            "/user/hand/right" => self.right,
            _ => &[],
        };
        self.both
            .iter()
            .chain(own)
            .chain(self.components_1_1(user))
            .copied()
    }

    /// Whether the profile has this path, such as `/user/hand/left/input/trigger/value`. `is_1_1` selects OpenXR 1.1
    /// instead of OpenXR 1.0. The last element may be omitted; the runtime then selects a component.
    pub(crate) fn has(&self, path: &str, is_1_1: bool) -> bool {
        let Some(user) = self.user_of(path) else {
            return false;
        };
        let rest = &path[user.len() + 1..];
        // `rest` must have at least two parts, because the identifier is required: `input` alone is not a path.
        let is_there = |component: &&str| is_1_1 || !self.components_1_1(user).contains(component);
        rest.split('/').count() >= 2
            && self.components(user).filter(is_there).any(|component| {
                let tail = component.strip_prefix(rest);
                tail.is_some_and(|tail| tail.is_empty() || tail.starts_with('/'))
            })
    }

    /// The source for an action of this type; `None` if the types do not match.
    pub(crate) fn source(&self, path: &str, kind: xr::ActionType) -> Option<BoundSource> {
        let user = self.user_of(path)?;
        let rest = &path[user.len() + 1..];
        let has = |component: &str| self.components(user).any(|c| c == component);
        let find = |ends: &[&str]| {
            let exact = self.components(user).find(|c| *c == rest);
            let fits = |component: &&str| ends.iter().any(|end| component.ends_with(end));
            // A thumbstick without a component is a vector, not a float.
            let is_single = !has(&format!("{rest}/x"));
            let named = || {
                let mut ends = ends.iter().filter(|_| is_single);
                ends.find_map(|end| {
                    let whole = format!("{rest}{end}");
                    self.components(user).find(|c| *c == whole)
                })
            };
            let found = exact.filter(fits).or_else(named)?;
            Some(format!("/{found}"))
        };
        match kind {
            xr::ActionType::BOOLEAN_INPUT => find(&[
                "/click",
                "/value",
                "/force",
                "/touch",
                "/proximity",
                "/x",
                "/y",
            ])
            .map(BoundSource::Bool),
            xr::ActionType::FLOAT_INPUT => find(&[
                "/value",
                "/force",
                "/x",
                "/y",
                "/click",
                "/touch",
                "/proximity",
            ])
            .map(BoundSource::Float),
            xr::ActionType::VECTOR2F_INPUT => {
                let axes = [format!("{rest}/x"), format!("{rest}/y")];
                // One profile of OpenXR 1.1 has a thumbstick without axis components.
                let whole = rest.starts_with("input/") && rest.split('/').count() == 2;
                (whole && has(rest) || axes.iter().all(|axis| has(axis))).then(|| {
                    BoundSource::Vector2f(format!("/{rest}"), axes.map(|axis| format!("/{axis}")))
                })
            }
            xr::ActionType::POSE_INPUT => find(&["/pose"]).map(BoundSource::Pose),
            xr::ActionType::VIBRATION_OUTPUT => {
                let is_output = rest.starts_with("output/");
                let found = self.components(user).find(|c| is_output && *c == rest)?;
                Some(BoundSource::Haptic(format!("/{found}")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_may_be_omitted() {
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
            assert!(touch.has(there, false), "{there}");
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
            assert!(!touch.has(none, false), "{none}");
        }
    }

    #[test]
    fn sources_match_the_action_type() {
        let touch = Profile::find("/interaction_profiles/oculus/touch_controller").unwrap();
        let read = |rest: &str, kind| touch.source(&format!("/user/hand/left/{rest}"), kind);
        let text = |component: &str| component.to_owned();
        let [boolean, float] = [xr::ActionType::BOOLEAN_INPUT, xr::ActionType::FLOAT_INPUT];
        let pulled = Some(BoundSource::Bool(text("/input/trigger/value")));
        assert_eq!(read("input/trigger", boolean), pulled);
        assert_eq!(read("input/trigger/value", boolean), pulled);
        let touched = Some(BoundSource::Bool(text("/input/trigger/touch")));
        assert_eq!(read("input/trigger/touch", boolean), touched);
        let number = Some(BoundSource::Float(text("/input/trigger/value")));
        assert_eq!(read("input/trigger", float), number);
        let axes = [text("/input/thumbstick/x"), text("/input/thumbstick/y")];
        let pair = Some(BoundSource::Vector2f(text("/input/thumbstick"), axes));
        let vector = xr::ActionType::VECTOR2F_INPUT;
        assert_eq!(read("input/thumbstick", vector), pair);
        assert_eq!(read("input/trigger", vector), None);
        assert_eq!(read("input/x/click", vector), None);
        assert_eq!(read("input/thumbstick", float), None);
        assert_eq!(read("input/thumbstick", boolean), None);
        let aside = Some(BoundSource::Bool(text("/input/thumbstick/x")));
        assert_eq!(read("input/thumbstick/x", boolean), aside);
        let haptic = Some(BoundSource::Haptic(text("/output/haptic")));
        let vibration = xr::ActionType::VIBRATION_OUTPUT;
        assert_eq!(read("output/haptic", vibration), haptic);
        assert_eq!(read("output/haptic", xr::ActionType::POSE_INPUT), None);
        assert_eq!(read("input/grip/pose", vibration), None);
    }

    #[test]
    fn additions_of_openxr_1_1_are_not_in_1_0() {
        let find = |name: &str| Profile::find(&format!("/interaction_profiles/{name}")).unwrap();
        let touch = find("oculus/touch_controller");
        for added in ["grip_surface/pose", "trigger/proximity"] {
            let path = format!("/user/hand/left/input/{added}");
            assert!(
                touch.has(&path, true) && !touch.has(&path, false),
                "{added}"
            );
        }
        assert!(!find("htc/vive_pro").has("/user/head/input/grip_surface/pose", true));
        assert!(find("htc/vive_focus3_controller").requires_1_1() && !touch.requires_1_1());
        let stick = "/user/hand/left/input/thumbstick";
        let source =
            find("bytedance/pico_g3_controller").source(stick, xr::ActionType::VECTOR2F_INPUT);
        assert!(
            matches!(source, Some(BoundSource::Vector2f(..))),
            "{source:?}"
        );
    }

    #[test]
    fn profiles_are_found_by_their_path() {
        let all = || PROFILES_1_0.iter().chain(PROFILES_1_1);
        assert_eq!([PROFILES_1_0.len(), PROFILES_1_1.len()], [9, 13]);
        let components = |p: &Profile| p.both.len() + p.left.len() + p.right.len();
        assert_eq!(all().map(components).sum::<usize>(), 367);
        for profile in all() {
            let path = format!("/interaction_profiles/{}", profile.name);
            assert_eq!(Profile::find(&path).map(|p| p.name), Some(profile.name));
        }
        assert!(Profile::find("/interaction_profiles/khr").is_none());
        assert!(Profile::find("khr/simple_controller").is_none());
    }
}
