//! An instance: its paths, actions and events, and its session.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, Weak};

use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use crate::debug;
use crate::extensions::Enabled;
use crate::handles::Object;
use crate::logic::actions::{ActionId, Actions, SetId};
use crate::logic::events::Events;
use crate::logic::paths::Paths;
use crate::vulkan::device_selection::DeviceSelection;

/// State of an `XrInstance`.
pub(crate) struct Instance {
    pub(crate) extensions: Enabled,
    pub(crate) paths: Mutex<Paths>,
    pub(crate) actions: Mutex<Actions>,
    pub(crate) events: Mutex<Events>,
    /// An instance has at most one session.
    pub(crate) session: Mutex<Weak<dyn InstanceSession>>,
    /// Vulkan objects that the application created or queried before its session.
    pub(crate) vulkan: Mutex<DeviceSelection>,
    /// Whether `xrGetOpenGLGraphicsRequirementsKHR` has been called.
    pub(crate) gl_requirements_queried: AtomicBool,
}

impl Instance {
    pub(crate) fn new(extensions: Enabled) -> Instance {
        Instance {
            extensions,
            paths: Mutex::default(),
            actions: Mutex::new(Actions::new(extensions.is_1_1())),
            events: Mutex::default(),
            session: Mutex::new(Weak::<NoSession>::new()),
            vulkan: Mutex::default(),
            gl_requirements_queried: AtomicBool::new(false),
        }
    }
}

/// The operations that an instance needs from its session.
pub(crate) trait InstanceSession: Send + Sync {
    /// Updates the audience and the refresh rate, and queues events for changes.
    fn update(&self);

    /// Whether the session's handle has been destroyed.
    fn is_destroyed(&self) -> bool;
}

struct NoSession;

impl InstanceSession for NoSession {
    fn update(&self) {}

    fn is_destroyed(&self) -> bool {
        true
    }
}

impl Object for Instance {
    type Handle = xr::Instance;
    const KIND: xr::ObjectType = xr::ObjectType::INSTANCE;
}

/// State of an `XrActionSet`.
pub(crate) struct ActionSet {
    pub(crate) instance: Weak<Instance>,
    pub(crate) id: SetId,
}

impl Object for ActionSet {
    type Handle = xr::ActionSet;
    const KIND: xr::ObjectType = xr::ObjectType::ACTION_SET;

    fn destroyed(&self) {
        if let Some(instance) = self.instance.upgrade() {
            lock(&instance.actions).destroy_set(self.id);
        }
    }
}

/// State of an `XrAction`.
pub(crate) struct Action {
    pub(crate) instance: Weak<Instance>,
    pub(crate) id: ActionId,
}

impl Object for Action {
    type Handle = xr::Action;
    const KIND: xr::ObjectType = xr::ObjectType::ACTION;

    fn destroyed(&self) {
        if let Some(instance) = self.instance.upgrade() {
            lock(&instance.actions).destroy(self.id);
        }
    }
}

/// State of an `XrDebugUtilsMessengerEXT`.
pub(crate) struct Messenger {
    pub(crate) number: u64,
}

impl Object for Messenger {
    type Handle = xr::DebugUtilsMessengerEXT;
    const KIND: xr::ObjectType = xr::ObjectType::DEBUG_UTILS_MESSENGER_EXT;

    fn destroyed(&self) {
        debug::remove(self.number);
    }
}
