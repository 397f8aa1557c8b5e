//! Frames and views (OpenXR 1.0, sections 8.4 and 10.4).

use openuvr_proto::units::Size;
use openxr_sys as xr;

use super::layer::Layers;
use super::system::{BLEND_MODE, count_views};
use super::time;
use crate::ffi::{self, DONE, call, input, optional, output};
use crate::graphics::Image;
use crate::handles;
use crate::logic::composition::{Eye, Shape, Surface, upright};
use crate::logic::scene::{EyeScene, Scene};
use crate::logic::views::MAX_LAYERS;
use crate::session::{Player, Session, Space};

pub(crate) unsafe extern "system" fn wait(
    session: xr::Session,
    info: *const xr::FrameWaitInfo,
    state: *mut xr::FrameState,
) -> xr::Result {
    call(c"xrWaitFrame", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let state = unsafe {
            optional(info)?;
            output(state)?
        };
        let (frame, should_render) = session.wait_frame()?;
        let period = i64::try_from(frame.period.as_nanos()).unwrap_or(i64::MAX);
        state.predicted_display_time = xr::Time::from_nanos(frame.display.0);
        state.predicted_display_period = xr::Duration::from_nanos(period);
        state.should_render = (should_render && !session.is_headless()).into();
        DONE
    })
}

pub(crate) unsafe extern "system" fn begin(
    session: xr::Session,
    info: *const xr::FrameBeginInfo,
) -> xr::Result {
    call(c"xrBeginFrame", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        unsafe { optional(info)? };
        session.begin_frame()
    })
}

pub(crate) unsafe extern "system" fn end(
    handle: xr::Session,
    info: *const xr::FrameEndInfo,
) -> xr::Result {
    call(c"xrEndFrame", || {
        let session = handles::get::<Session>(handle)?;
        // SAFETY: the application passes valid pointers.
        let info = unsafe { input(info)? };
        session.may_end_frame()?;
        let display = time(info.display_time)?;
        if info.environment_blend_mode != BLEND_MODE {
            return Err(xr::Result::ERROR_ENVIRONMENT_BLEND_MODE_UNSUPPORTED);
        }
        if info.layer_count > MAX_LAYERS {
            return Err(xr::Result::ERROR_LAYER_LIMIT_EXCEEDED);
        }
        let given = unsafe {
            // SAFETY: the application passes valid pointers.
            ffi::array(info.layers, info.layer_count, MAX_LAYERS)
        };
        let given = match session.is_headless() {
            // A headless session has no images, so its layers are ignored.
            true => &[],
            false => given.map_err(|_| xr::Result::ERROR_LAYER_INVALID)?,
        };
        let views = count_views(session.views())?;
        let head = session.rendered_head(display);
        let mut layers = Layers::new(&session, views, (head, display));
        for layer in given {
            // SAFETY: the application passes valid pointers.
            unsafe { layers.read(*layer)? };
        }
        session.end_frame();
        let (size, eyes) = scene(layers.eyes, &session.headset().eyes(head.pose, views));
        if let Some(size) = size {
            session.set_eye_size(size);
        }
        // A frame without layers is shown as a black picture. If `shouldRender` was false, it is not shown.
        let size = size.or_else(|| session.eye_size(given.is_empty()));
        if let Some(graphics) = &session.graphics
            && let Some(size) = size
            && let Some((sink, drawn)) = session.sink(display, &rendered_views(&eyes))
        {
            let scene = Scene { size, eyes };
            if let Err(why) = graphics.show(scene, sink, drawn) {
                session.report(&why);
            }
        }
        DONE
    })
}

/// The layers of each eye, and the view from which they are seen: the view of the first projection layer or, if there
/// is none, the located view. Also returns the per-eye resolution, if there is a projection layer.
fn scene(surfaces: Vec<Vec<Surface<Image>>>, eyes: &[Eye]) -> (Option<Size>, Vec<EyeScene<Image>>) {
    let mut size: Option<Size> = None;
    let eye_scenes = surfaces.into_iter().zip(eyes).map(|(surfaces, eye)| {
        let first = surfaces.iter().find_map(|surface| match surface.shape {
            Shape::View(view) => Some((view, surface.rect.size)),
            Shape::Quad(..) => None,
        });
        let eye = match first {
            Some((view, its)) => {
                size.get_or_insert(its);
                Eye {
                    fov: upright(view.fov),
                    ..view
                }
            }
            None => *eye,
        };
        EyeScene { eye, surfaces }
    });
    let eyes = eye_scenes.collect();
    (size, eyes)
}

/// The views for which a frame was rendered.
fn rendered_views(eyes: &[EyeScene<Image>]) -> Vec<Eye> {
    eyes.iter().map(|eye_scene| eye_scene.eye).collect()
}

pub(crate) unsafe extern "system" fn locate_views(
    session: xr::Session,
    info: *const xr::ViewLocateInfo,
    state: *mut xr::ViewState,
    capacity: u32,
    count: *mut u32,
    views: *mut xr::View,
) -> xr::Result {
    call(c"xrLocateViews", || {
        let session = handles::get::<Session>(session)?;
        // SAFETY: the application passes valid pointers.
        let (info, state) = unsafe { (input(info)?, output(state)?) };
        let space = handles::get::<Space>(info.space)?;
        let configuration = info.view_configuration_type;
        let number = count_views(configuration)?;
        let at = time(info.display_time)?;
        let head = match capacity {
            0 => session.head(at),
            // The application will render the picture with these views, even if it locates them for a view
            // configuration other than its session's.
            _ => session.head_for_frame(at),
        };
        let player = Player {
            session: &session,
            head,
            at,
        };
        let base = space.space.in_local(&player);
        let back = base.map(|base| base.pose.inverse());
        let put = |eye: &Eye, pointer| {
            // SAFETY: the application passes valid pointers.
            let to = unsafe { output::<xr::View>(pointer)? };
            to.pose = back.map_or(eye.pose, |back| back.of(eye.pose)).raw();
            to.fov = eye.fov;
            Ok(())
        };
        let known = xr::ViewStateFlags::ORIENTATION_VALID | xr::ViewStateFlags::POSITION_VALID;
        let tracked =
            xr::ViewStateFlags::ORIENTATION_TRACKED | xr::ViewStateFlags::POSITION_TRACKED;
        state.view_state_flags = match back {
            None => xr::ViewStateFlags::EMPTY,
            Some(_) if head.tracked => known | tracked,
            Some(_) => known,
        };
        let eyes = session.headset().eyes(head.pose, number);
        // SAFETY: the application passes valid pointers.
        unsafe { ffi::list(&eyes, capacity, count, views, put) }
    })
}
