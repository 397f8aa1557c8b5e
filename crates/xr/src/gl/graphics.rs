//! A session's use of the application's OpenGL context: textures for swapchains, and submission of pictures.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use glow::HasContext as _;
use openuvr_clock as clock;
use openuvr_media::capture::RenderInfo;
use openuvr_media::capture::gl::{
    PrivateContext, ReadBack, ReadSource, ReadStatus, Sharing, SkipReason,
};
use openuvr_runtime::lock::lock;
use openxr_sys as xr;

use super::binding::Binding;
use super::compose::Composer;
use super::images::{COLOURS, DEPTHS, Image, ImageInfo, SwapchainImages};
use crate::ffi::Outcome;
use crate::logic::scene::Scene;
use crate::stream::FrameSink;

/// Maximum number of swapchains of a session (guess: engines have several dozen).
const MAX_SWAPCHAINS: u32 = 1024;

/// Minimum version of OpenGL.
const MIN_VERSION: (u32, u32) = (4, 3);

/// `glTexStorage3DMultisample`, which glow does not provide.
type Storage3d = unsafe extern "C" fn(u32, i32, u32, i32, i32, i32, u8);

/// The OpenGL context of a session, and the resources that the runtime has in it.
pub(crate) struct Graphics {
    swapchains: AtomicU32,
    /// `None` after the session has ended.
    inner: Mutex<Option<Inner>>,
}

struct Inner {
    aside: PrivateContext,
    gl: glow::Context,
    storage_3d: Option<Storage3d>,
    binding: Binding,
    composer: Option<Composer>,
    /// The read-back of pictures, and the sink for which it was created.
    reader: Option<(FrameSink, ReadBack)>,
}

// SAFETY: `glow`'s functions, library handles and object names may be used from any thread on which the context is
// current. `PrivateContext::enter` makes it current.
unsafe impl Send for Inner {}

impl Graphics {
    /// Creates a private context that shares the objects of the application's context.
    ///
    /// # Errors
    /// `XR_ERROR_GRAPHICS_DEVICE_INVALID` if the context is too old, uses OpenGL ES, or cannot be shared.
    ///
    /// # Safety
    /// The binding's handles are valid until [`Graphics::close`], and the context is current on this thread
    /// or on none.
    pub(crate) unsafe fn new(binding: Binding) -> Outcome<Graphics> {
        let invalid = xr::Result::ERROR_GRAPHICS_DEVICE_INVALID;
        // SAFETY: the caller upholds this function's contract, and `binding` returns the driver's functions.
        unsafe {
            let mut find = |name: &std::ffi::CStr| binding.function(name);
            let aside = PrivateContext::new(&mut find, binding.sharing, binding.native);
            let mut aside = aside.map_err(|_| invalid)?;
            let entered = aside.enter().ok_or(invalid)?;
            let gl = glow::Context::from_loader_function_cstr(|name| binding.function(name));
            drop(entered);
            let version = gl.version();
            if version.is_embedded || (version.major, version.minor) < MIN_VERSION {
                return Err(invalid);
            }
            let storage_3d = binding.function(c"glTexStorage3DMultisample");
            let storage_3d =
                std::mem::transmute::<*const std::ffi::c_void, Option<Storage3d>>(storage_3d);
            Ok(Graphics {
                swapchains: AtomicU32::new(0),
                inner: Mutex::new(Some(Inner {
                    aside,
                    gl,
                    storage_3d,
                    binding,
                    composer: None,
                    reader: None,
                })),
            })
        }
    }

    /// The supported swapchain formats, in order of preference. All are part of OpenGL 3.
    pub(crate) fn formats(&self) -> Vec<i64> {
        COLOURS
            .iter()
            .chain(&DEPTHS)
            .copied()
            .map(i64::from)
            .collect()
    }

    /// Creates the textures of a swapchain.
    ///
    /// # Errors
    /// Returns the error code that the specification defines.
    pub(crate) fn make(&self, info: &ImageInfo) -> Outcome<SwapchainImages> {
        let failed = xr::Result::ERROR_RUNTIME_FAILURE;
        let mut inner = lock(&self.inner);
        let Inner {
            aside,
            gl,
            storage_3d,
            ..
        } = inner.as_mut().ok_or(failed)?;
        if self.swapchains.fetch_add(1, Ordering::Relaxed) >= MAX_SWAPCHAINS {
            self.swapchains.fetch_sub(1, Ordering::Relaxed);
            return Err(xr::Result::ERROR_LIMIT_REACHED);
        }
        let Some(_entered) = aside.enter() else {
            self.swapchains.fetch_sub(1, Ordering::Relaxed);
            return Err(failed);
        };
        let mut textures = Vec::new();
        // SAFETY: the private context is current.
        let made = unsafe {
            (0..info.common.count()).try_for_each(|_| {
                textures.push(texture(gl, *storage_3d, info)?);
                Ok(())
            })
        };
        if let Err(why) = made {
            for texture in textures {
                // SAFETY: the private context is current.
                unsafe { gl.delete_texture(texture) };
            }
            self.swapchains.fetch_sub(1, Ordering::Relaxed);
            return Err(why);
        }
        // The storage must exist before the application renders to it.
        // SAFETY: the private context is current.
        unsafe { gl.finish() };
        Ok(SwapchainImages::new(*info, textures))
    }

    pub(crate) fn destroy_images(&self, swapchain_images: &SwapchainImages) {
        let mut inner = lock(&self.inner);
        swapchain_images.mark_destroyed();
        // After the end of a session, its textures are destroyed with the share group of its context.
        let Some(Inner { aside, gl, .. }) = &mut *inner else {
            return;
        };
        let Some(_entered) = aside.enter() else {
            return;
        };
        let resolved = std::mem::take(&mut *lock(&swapchain_images.resolved));
        let all = resolved.into_iter().map(|(_, texture)| texture);
        for texture in all.chain(swapchain_images.textures.iter().copied()) {
            // SAFETY: the private context is current. The application has destroyed the swapchain, and no longer uses
            // the textures.
            unsafe { gl.delete_texture(texture) };
        }
        self.swapchains.fetch_sub(1, Ordering::Relaxed);
    }

    /// Submits the picture of a frame. The picture is dropped if no buffer is free.
    ///
    /// # Errors
    /// Returns the reason, as one line of text.
    pub(crate) fn show(
        &self,
        scene: &Scene<Image>,
        to: FrameSink,
        drawn: RenderInfo,
    ) -> Result<(), String> {
        let mut inner = lock(&self.inner);
        let Some(Inner {
            aside,
            gl,
            binding,
            composer,
            reader,
            ..
        }) = &mut *inner
        else {
            return Ok(());
        };
        let mut surfaces = scene.eyes.iter().flat_map(|eye| &eye.surfaces);
        if surfaces.any(|surface| surface.image.swapchain_images.is_destroyed()) {
            return Ok(());
        }
        let Some(_entered) = aside.enter() else {
            return Err("cannot make the shared OpenGL context current".to_owned());
        };
        let size = scene.total_size();
        // SAFETY: the private context is current, and `scene` keeps the images alive.
        unsafe {
            if let Some(old) = composer.take_if(|composer| composer.size != size) {
                old.destroy(gl);
            }
            let composer = match composer {
                Some(composer) => composer,
                none => none.insert(Composer::new(gl, size)?),
            };
            composer.compose(gl, scene);
            let reader = match reader {
                Some((sink, reader)) if Arc::ptr_eq(sink, &to) => reader,
                other => {
                    if let Some((_, old)) = other.take() {
                        old.retire(true);
                    }
                    &mut other
                        .insert((to.clone(), new_reader(binding, to.clone())?))
                        .1
                }
            };
            let what = ReadSource::Framebuffer {
                name: composer.framebuffer.0.get(),
            };
            match reader.read(size, what, drawn) {
                ReadStatus::Submitted(_) | ReadStatus::Pending => Ok(()),
                ReadStatus::Skipped(why) => {
                    to.missed(clock::now());
                    match why {
                        SkipReason::RingFull => Ok(()),
                        why => Err(format!("cannot read the picture back: {why}")),
                    }
                }
            }
        }
    }

    /// Frees the session's resources except the textures of swapchains. No frame is submitted afterwards.
    pub(crate) fn close(&self) {
        let Some(inner) = lock(&self.inner).take() else {
            return;
        };
        let Inner {
            mut aside,
            gl,
            composer,
            reader,
            ..
        } = inner;
        let entered = aside.enter();
        let current = entered.is_some();
        if let Some((_, reader)) = reader {
            reader.retire(current);
        }
        if let Some(composer) = composer
            && current
        {
            // SAFETY: the private context is current.
            unsafe { composer.destroy(&gl) };
        }
    }
}

/// Creates an empty texture.
///
/// # Safety
/// The private context is current.
unsafe fn texture(
    gl: &glow::Context,
    storage_3d: Option<Storage3d>,
    info: &ImageInfo,
) -> Outcome<glow::Texture> {
    let number = |n: u32| i32::try_from(n).map_err(|_| xr::Result::ERROR_VALIDATION_FAILURE);
    let all = &info.common;
    let (width, height) = (number(all.size.width)?, number(all.size.height)?);
    let (layers, mips, samples) = (number(all.layers)?, number(all.mips)?, number(all.samples)?);
    let (target, format) = (info.target(), info.format);
    // SAFETY: the caller guarantees that the private context is current.
    unsafe {
        // Clears earlier errors. The number of attempts is limited, because a lost context returns an error each time.
        for _ in 0..16 {
            if gl.get_error() == glow::NO_ERROR {
                break;
            }
        }
        let texture = gl.create_texture();
        let texture = texture.map_err(|_| xr::Result::ERROR_OUT_OF_MEMORY)?;
        gl.bind_texture(target, Some(texture));
        match (target, storage_3d) {
            (glow::TEXTURE_2D, _) => gl.tex_storage_2d(target, mips, format, width, height),
            (glow::TEXTURE_2D_ARRAY, _) => {
                gl.tex_storage_3d(target, mips, format, width, height, layers);
            }
            (glow::TEXTURE_2D_MULTISAMPLE, _) => {
                gl.tex_storage_2d_multisample(target, samples, format, width, height, true);
            }
            (_, Some(storage)) => storage(target, samples, format, width, height, layers, 1),
            (_, None) => {
                gl.delete_texture(texture);
                return Err(xr::Result::ERROR_FEATURE_UNSUPPORTED);
            }
        }
        let error = gl.get_error();
        gl.bind_texture(target, None);
        let why = match error {
            glow::NO_ERROR => return Ok(texture),
            glow::OUT_OF_MEMORY => xr::Result::ERROR_OUT_OF_MEMORY,
            // The image has more samples or layers than the driver supports.
            _ => xr::Result::ERROR_FEATURE_UNSUPPORTED,
        };
        gl.delete_texture(texture);
        Err(why)
    }
}

/// Creates the read-back for a sink.
///
/// # Safety
/// The private context must be current, and must live until the read-back is retired.
unsafe fn new_reader(binding: &Binding, to: FrameSink) -> Result<ReadBack, String> {
    let submit = Arc::new(move |frame, drawn| to.submit(frame, drawn));
    let mut find = |name: &std::ffi::CStr| binding.function(name);
    // The read-back waits for the device on a separate thread, which also uses the application's display. With
    // `threads: false`, the read-back checks that libX11 permits this.
    let sharing = match binding.sharing {
        Sharing::Glx { .. } => Sharing::Glx { threads: false },
        other => other,
    };
    // SAFETY: the caller guarantees that the private context is current and lives until the read-back is retired.
    let reader = unsafe { ReadBack::new(&mut find, sharing, submit) };
    reader.map_err(|e| e.to_string())
}
