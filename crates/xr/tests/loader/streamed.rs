//! Streamed applications: the viewpoints of frames, and the player's controllers and haptics.

use std::ffi::CStr;
use std::ptr::null;
use std::time::{Duration, Instant};

use openuvr_clock as clock;
use openuvr_proto::controller::{Buttons, ControllerState, Hand, Haptic};
use openuvr_proto::pose::Pose;
use openuvr_proto::wire::video::Viewpoint;
use openuvr_runtime::client::Notice;
use openxr_sys as xr;

use crate::actions::{action, attach, set, sync};
use crate::rig::{Application, alone};
use crate::viewer::{Viewer, write_settings};
use crate::vulkan::{Drawing, projection, view};

/// Limit of a single wait.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A rotation to the left, with exact sine and cosine.
const TURNED: [f32; 4] = [0.0, 0.6, 0.0, 0.8];

/// Whether two vectors are equal except for the rounding errors of one rotation.
fn near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6)
}

/// An application with a rendering session, and a client with the player role.
struct Game {
    drawing: Drawing,
    session: xr::Session,
    space: xr::Space,
    swapchain: xr::Swapchain,
    viewer: Viewer,
}

impl Game {
    /// Starts the application and its client. Calls `prepare` before the session begins.
    fn start(prepare: impl FnOnce(&Application, xr::Session)) -> Option<Game> {
        let port = write_settings();
        let drawing = Drawing::open()?;
        drawing.app.query_requirements();
        let session = drawing.session().unwrap();
        prepare(&drawing.app, session);
        assert_eq!(drawing.app.begin(session), xr::Result::SUCCESS);
        let space = drawing.app.space(session, xr::ReferenceSpaceType::LOCAL);
        let swapchain = drawing.swapchain(session, |_| {}).unwrap();
        drawing.cycle_image(swapchain);
        let viewer = Viewer::start(port);
        Some(Game {
            drawing,
            session,
            space,
            swapchain,
            viewer,
        })
    }

    /// Runs a frame that is rendered for these eyes. Returns its display time.
    fn frame(&self, eyes: [(xr::Posef, xr::Fovf); 2]) -> xr::Time {
        let app = &self.drawing.app;
        let (display, _) = app.wait_frame(self.session).unwrap();
        assert_eq!(app.begin_frame(self.session), xr::Result::SUCCESS);
        self.locate(display);
        let views = eyes.map(|(pose, fov)| xr::CompositionLayerProjectionView {
            pose,
            fov,
            ..view(self.swapchain, 64)
        });
        let layer = projection(self.space, &views);
        let ended = app.end_frame(self.session, display, &[(&raw const layer).cast()]);
        assert_eq!(ended, xr::Result::SUCCESS);
        display
    }

    /// `xrLocateViews`, as applications call it before rendering.
    fn locate(&self, display: xr::Time) -> [xr::View; 2] {
        let info = xr::ViewLocateInfo {
            ty: xr::ViewLocateInfo::TYPE,
            next: null(),
            view_configuration_type: xr::ViewConfigurationType::PRIMARY_STEREO,
            display_time: display,
            space: self.space,
        };
        // SAFETY: zero is valid for all fields.
        let (mut state, mut views): (xr::ViewState, [xr::View; 2]) = unsafe { std::mem::zeroed() };
        state.ty = xr::ViewState::TYPE;
        views.iter_mut().for_each(|view| view.ty = xr::View::TYPE);
        let (mut count, out) = (0, views.as_mut_ptr());
        let app = &self.drawing.app;
        done!(
            app,
            LocateViews(self.session, &info, &mut state, 2, &mut count, out)
        );
        views
    }

    fn end(self) {
        done!(self.drawing.app, DestroySession(self.session));
        self.drawing.close();
    }
}

fn eye(x: f32, right: f32) -> (xr::Posef, xr::Fovf) {
    let [qx, qy, qz, qw] = TURNED;
    let pose = xr::Posef {
        orientation: xr::Quaternionf {
            x: qx,
            y: qy,
            z: qz,
            w: qw,
        },
        position: xr::Vector3f { x, y: 1.5, z: -0.2 },
    };
    let fov = xr::Fovf {
        angle_left: -0.7,
        angle_right: right,
        angle_up: 0.5,
        angle_down: -0.4,
    };
    (pose, fov)
}

#[test]
fn frames_carry_their_viewpoint() {
    alone("streamed::frames_carry_their_viewpoint", || {
        let Some(game) = Game::start(|_, _| ()) else {
            return;
        };
        let head = Pose::new([0.25, 1.5, 0.5], TURNED).unwrap();
        let (left, right) = (eye(0.2, 0.6), eye(0.3, 0.65));
        let mut displays = Vec::new();
        let until = Instant::now() + TIMEOUT;
        let (views, pose) = loop {
            assert!(
                Instant::now() < until,
                "no frame with pose and views received"
            );
            let _ = game.viewer.client.set_pose(&head, clock::now());
            displays.push(game.frame([left, right]).as_nanos());
            let viewpoint = game.viewer.next_viewpoint(Duration::from_millis(1));
            if let Some(Viewpoint {
                views: Some(views),
                pose: Some(pose),
            }) = viewpoint
                && views.count() == 2
            {
                break (views, pose);
            }
        };
        for (view, (pose, fov)) in views.iter().zip([left, right]) {
            let (at, angles) = (view.pose.position(), view.fov.angles());
            let p = pose.position;
            assert!(near(&at, &[p.x, p.y, p.z]), "{at:?}");
            let turned = view.pose.orientation();
            assert!(near(&turned, &TURNED), "{turned:?}");
            let submitted = [
                fov.angle_left,
                fov.angle_right,
                fov.angle_up,
                fov.angle_down,
            ];
            assert_eq!(angles, submitted);
        }
        assert_eq!(pose.at.position(), head.position());
        assert!(near(&pose.at.orientation(), &TURNED));
        let display = pose.display.map(|at| at.0).unwrap();
        assert!(displays.contains(&display), "{display} of {displays:?}");
        game.end();
    });
}

fn bind(app: &Application, profile: &CStr, bindings: &[(xr::Action, &CStr)]) {
    let bindings: Vec<_> = (bindings.iter())
        .map(|(action, path)| xr::ActionSuggestedBinding {
            action: *action,
            binding: app.path(path),
        })
        .collect();
    let info = xr::InteractionProfileSuggestedBinding {
        ty: xr::InteractionProfileSuggestedBinding::TYPE,
        next: null(),
        interaction_profile: app.path(profile),
        count_suggested_bindings: u32::try_from(bindings.len()).unwrap(),
        suggested_bindings: bindings.as_ptr(),
    };
    done!(app, SuggestInteractionProfileBindings(app.instance, &info));
}

/// Actions of an application.
#[derive(Clone, Copy, Default)]
struct Bound {
    game: xr::ActionSet,
    shoot: xr::Action,
    jump: xr::Action,
    walk: xr::Action,
    hand: xr::Action,
    buzz: xr::Action,
}

impl Bound {
    fn new(app: &Application, profile: &CStr, touch: bool) -> Bound {
        let game = set(app, "game");
        let make = |name, kind| action(app, game, name, kind).unwrap();
        let bound = Bound {
            game,
            shoot: make("shoot", xr::ActionType::BOOLEAN_INPUT),
            jump: make("jump", xr::ActionType::FLOAT_INPUT),
            walk: make("walk", xr::ActionType::VECTOR2F_INPUT),
            hand: make("hand", xr::ActionType::POSE_INPUT),
            buzz: make("buzz", xr::ActionType::VIBRATION_OUTPUT),
        };
        let hand = (bound.hand, c"/user/hand/right/input/grip/pose");
        let buzz = (bound.buzz, c"/user/hand/right/output/haptic");
        let all = match touch {
            true => vec![
                (bound.shoot, c"/user/hand/right/input/a/click"),
                (bound.jump, c"/user/hand/right/input/trigger/value"),
                (bound.walk, c"/user/hand/right/input/thumbstick"),
                hand,
                buzz,
            ],
            false => vec![
                (bound.shoot, c"/user/hand/right/input/select/click"),
                hand,
                buzz,
            ],
        };
        bind(app, profile, &all);
        bound
    }
}

fn state_info(action: xr::Action) -> xr::ActionStateGetInfo {
    xr::ActionStateGetInfo {
        ty: xr::ActionStateGetInfo::TYPE,
        next: null(),
        action,
        subaction_path: xr::Path::NULL,
    }
}

/// Runs frames and synchronises actions until the application receives the press of the player's right-hand button.
/// Meanwhile, the client keeps sending the controller's state.
fn wait_for_press(game: &Game, bound: &Bound, controller: ControllerState) {
    let app = &game.drawing.app;
    let until = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < until, "no press received");
        let states = [None, Some(controller)];
        let _ = game.viewer.client.push_controllers(clock::now(), states);
        game.frame([eye(0.2, 0.6), eye(0.3, 0.6)]);
        let _ = sync(app, game.session, bound.game);
        // SAFETY: zero is valid for all fields.
        let mut state: xr::ActionStateBoolean = unsafe { std::mem::zeroed() };
        state.ty = xr::ActionStateBoolean::TYPE;
        done!(
            app,
            GetActionStateBoolean(game.session, &state_info(bound.shoot), &mut state)
        );
        if state.is_active.into() && state.current_state.into() {
            return;
        }
    }
}

fn profile(game: &Game, user: &CStr) -> xr::Path {
    // SAFETY: zero is valid for all fields.
    let mut state: xr::InteractionProfileState = unsafe { std::mem::zeroed() };
    state.ty = xr::InteractionProfileState::TYPE;
    let app = &game.drawing.app;
    let user = app.path(user);
    done!(
        app,
        GetCurrentInteractionProfile(game.session, user, &mut state)
    );
    state.interaction_profile
}

fn controller_state() -> ControllerState {
    ControllerState {
        grip: Pose::new([0.5, 1.25, -0.5], TURNED).ok(),
        buttons: Buttons::A_X,
        trigger: ControllerState::pull(0.25),
        thumbstick: (ControllerState::deflection(-1.0), 0),
        ..ControllerState::new(Hand::Right)
    }
}

#[test]
fn controllers_drive_actions_and_get_haptics() {
    let name = "streamed::controllers_drive_actions_and_get_haptics";
    alone(name, || {
        let touch = c"/interaction_profiles/oculus/touch_controller";
        let mut bound = Bound::default();
        let started = Game::start(|app, session| {
            bound = Bound::new(app, touch, true);
            assert_eq!(attach(app, session, bound.game), xr::Result::SUCCESS);
        });
        let Some(game) = started else { return };
        let app = &game.drawing.app;
        wait_for_press(&game, &bound, controller_state());
        // SAFETY: zero is valid for all fields.
        let mut pulled: xr::ActionStateFloat = unsafe { std::mem::zeroed() };
        pulled.ty = xr::ActionStateFloat::TYPE;
        done!(
            app,
            GetActionStateFloat(game.session, &state_info(bound.jump), &mut pulled)
        );
        assert!((pulled.current_state - 0.25).abs() < 1e-4);
        // SAFETY: zero is valid for all fields.
        let mut stick: xr::ActionStateVector2f = unsafe { std::mem::zeroed() };
        stick.ty = xr::ActionStateVector2f::TYPE;
        done!(
            app,
            GetActionStateVector2f(game.session, &state_info(bound.walk), &mut stick)
        );
        assert_eq!((stick.current_state.x, stick.current_state.y), (-1.0, 0.0));
        assert_eq!(profile(&game, c"/user/hand/right"), app.path(touch));
        assert_eq!(profile(&game, c"/user/hand/left"), xr::Path::NULL);
        assert!(app.profile_changed(), "the application gets an event");

        // The hand's pose.
        let info = xr::ActionSpaceCreateInfo {
            ty: xr::ActionSpaceCreateInfo::TYPE,
            next: null(),
            action: bound.hand,
            subaction_path: xr::Path::NULL,
            pose_in_action_space: xr::Posef::IDENTITY,
        };
        let mut grip = xr::Space::default();
        done!(app, CreateActionSpace(game.session, &info, &mut grip));
        // SAFETY: zero is valid for all fields.
        let mut location: xr::SpaceLocation = unsafe { std::mem::zeroed() };
        location.ty = xr::SpaceLocation::TYPE;
        let now = xr::Time::from_nanos(clock::now().0);
        done!(app, LocateSpace(grip, game.space, now, &mut location));
        let at = location.pose.position;
        assert!(near(&[at.x, at.y, at.z], &[0.5, 1.25, -0.5]), "{at:?}");

        // Haptic feedback.
        let vibration = xr::HapticVibration {
            ty: xr::HapticVibration::TYPE,
            next: null(),
            duration: xr::Duration::from_nanos(20_000_000),
            frequency: 160.0,
            amplitude: 1.0,
        };
        let info = xr::HapticActionInfo {
            ty: xr::HapticActionInfo::TYPE,
            next: null(),
            action: bound.buzz,
            subaction_path: xr::Path::NULL,
        };
        let feedback = (&raw const vibration).cast();
        done!(app, ApplyHapticFeedback(game.session, &info, feedback));
        let next_haptic = || {
            let until = Instant::now() + TIMEOUT;
            loop {
                assert!(Instant::now() < until, "no haptic feedback received");
                let notice = game.viewer.client.notice(Duration::from_millis(100));
                if let Some(Notice::Haptic(haptic)) = notice {
                    return haptic;
                }
            }
        };
        let buzz = Haptic {
            hand: Hand::Right,
            amplitude: u16::MAX,
            frequency: 160,
            duration: Duration::from_millis(20),
        };
        assert_eq!(next_haptic(), buzz);
        done!(app, StopHapticFeedback(game.session, &info));
        assert_eq!(
            next_haptic(),
            Haptic::stop(Hand::Right),
            "delivered once, although sent three times"
        );
        game.end();
    });
}

#[test]
fn the_simple_controller_profile_is_a_fallback() {
    alone(
        "streamed::the_simple_controller_profile_is_a_fallback",
        || {
            let simple = c"/interaction_profiles/khr/simple_controller";
            let mut bound = Bound::default();
            let started = Game::start(|app, session| {
                bound = Bound::new(app, simple, false);
                assert_eq!(attach(app, session, bound.game), xr::Result::SUCCESS);
            });
            let Some(game) = started else { return };
            let pulled = ControllerState {
                buttons: Buttons::default(),
                trigger: ControllerState::pull(0.9),
                ..controller_state()
            };
            wait_for_press(&game, &bound, pulled);
            let path = game.drawing.app.path(simple);
            assert_eq!(profile(&game, c"/user/hand/right"), path);
            game.end();
        },
    );
}
