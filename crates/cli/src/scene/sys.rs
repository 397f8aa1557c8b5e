//! The window and the OpenGL calls of the scene: everything of it that needs `unsafe`.
//!
//! What is drawn is decided elsewhere ([`room`](super::room), [`camera`](super::camera)).
//! Xlib and libGL are opened at run time, so that the program starts without them.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use anyhow::{Context as _, Result, bail};
use glow::HasContext as _;
use openuvr_media::barcode;
use openuvr_proto::units::Size;
use x11_dl::{glx, keysym, xlib};

use super::room::{Frame, Mesh};
use super::texture::{self, Texture};

/// What happened in the window since the last look.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    /// A key or button went down; not a repeat.
    Press,
    /// A movement key went down or up.
    Walk(Direction, bool),
    /// The pointer is here, as a fraction of the window.
    Look(f32, f32),
    /// The window has a new size.
    Resized(Size),
    /// The window manager asks to close.
    Close,
}

/// Where a movement key leads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Direction {
    Forward,
    Back,
    Left,
    Right,
}

/// A window with a current OpenGL context. Belongs to the thread that opened it.
pub(super) struct Window {
    x: xlib::Xlib,
    glx: glx::Glx,
    display: *mut xlib::Display,
    window: c_ulong,
    context: glx::GLXContext,
    close_atom: c_ulong,
    size: Size,
    /// Keys that are down, so that a repeat is not taken for a press.
    held: [bool; 256],
}

impl Window {
    /// Opens a window on `display` (`None`: `$DISPLAY`).
    pub(super) fn open(display: Option<&str>, size: Size, full_screen: bool) -> Result<Window> {
        let x = xlib::Xlib::open().context("libX11 is missing: apt install libx11-6")?;
        let glx = glx::Glx::open().context("libGL is missing: apt install libgl1")?;
        let surroundings = || {
            std::env::var("DISPLAY")
                .ok()
                .filter(|name| !name.is_empty())
        };
        let Some(named) = display.map(str::to_owned).or_else(surroundings) else {
            bail!("no X display is known: give --display, such as :0, or set DISPLAY");
        };
        let name = CString::new(named.as_str())?;
        // SAFETY: Xlib takes a NUL-terminated name; every pointer handed to Xlib and GLX
        // below comes from them or points to a local that outlives the call. The display is
        // checked for null before use, and closed only in `drop`.
        unsafe {
            (x.XSetErrorHandler)(Some(ignore_error));
            let display = (x.XOpenDisplay)(name.as_ptr());
            if display.is_null() {
                bail!("can't open the X display {named}: is it running, and may you use it?");
            }
            let screen = (x.XDefaultScreen)(display);
            let root = (x.XRootWindow)(display, screen);
            let size = if full_screen {
                let side = |pixels: c_int| u32::try_from(pixels).unwrap_or(1);
                let width = side((x.XDisplayWidth)(display, screen));
                Size::new(width, side((x.XDisplayHeight)(display, screen)))
            } else {
                size
            };
            let attributes = [
                (glx::GLX_X_RENDERABLE, 1),
                (glx::GLX_DOUBLEBUFFER, 1),
                (glx::GLX_RED_SIZE, 8),
                (glx::GLX_GREEN_SIZE, 8),
                (glx::GLX_BLUE_SIZE, 8),
                (glx::GLX_DEPTH_SIZE, 24),
                (0, 0),
            ];
            let flat: Vec<c_int> = attributes.iter().flat_map(|&(k, v)| [k, v]).collect();
            let mut count = 0;
            let configs = (glx.glXChooseFBConfig)(display, screen, flat.as_ptr(), &mut count);
            if configs.is_null() || count < 1 {
                bail!(
                    "this display has no OpenGL (GLX) with 24 bit colour: start it with +extension GLX"
                );
            }
            let config = *configs;
            (x.XFree)(configs.cast());
            let visual = (glx.glXGetVisualFromFBConfig)(display, config);
            if visual.is_null() {
                bail!("this display's OpenGL can't draw into windows");
            }
            let mut set: xlib::XSetWindowAttributes = MaybeUninit::zeroed().assume_init();
            set.colormap = (x.XCreateColormap)(display, root, (*visual).visual, xlib::AllocNone);
            set.event_mask = xlib::KeyPressMask
                | xlib::KeyReleaseMask
                | xlib::ButtonPressMask
                | xlib::PointerMotionMask
                | xlib::StructureNotifyMask;
            let window = (x.XCreateWindow)(
                display,
                root,
                0,
                0,
                size.width,
                size.height,
                0,
                (*visual).depth,
                1, // InputOutput
                (*visual).visual,
                xlib::CWColormap | xlib::CWEventMask | xlib::CWBorderPixel,
                &mut set,
            );
            (x.XFree)(visual.cast());
            (x.XStoreName)(display, window, c"OpenUVR scene".as_ptr());
            let atom = |name: &CStr| (x.XInternAtom)(display, name.as_ptr(), 0);
            let mut close_atom = atom(c"WM_DELETE_WINDOW");
            (x.XSetWMProtocols)(display, window, &mut close_atom, 1);
            if full_screen {
                let state = atom(c"_NET_WM_STATE_FULLSCREEN");
                (x.XChangeProperty)(
                    display,
                    window,
                    atom(c"_NET_WM_STATE"),
                    xlib::XA_ATOM,
                    32,
                    xlib::PropModeReplace,
                    (&raw const state).cast(),
                    1,
                );
            }
            let context =
                (glx.glXCreateNewContext)(display, config, glx::GLX_RGBA_TYPE, null_mut(), 1);
            if context.is_null() {
                bail!("this display gives no OpenGL context");
            }
            let mut supported = 0;
            (x.XkbSetDetectableAutoRepeat)(display, 1, &mut supported);
            (x.XMapWindow)(display, window);
            (glx.glXMakeCurrent)(display, window, context);
            let window = Window {
                x,
                glx,
                display,
                window,
                context,
                close_atom,
                size,
                held: [false; 256],
            };
            window.no_vertical_sync();
            Ok(window)
        }
    }

    /// The window's size in pixels.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// What has happened since the last call; doesn't wait.
    pub(super) fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        // SAFETY: the display is open; XNextEvent fills the event it is given, and each union
        // field is read only after its type has been checked.
        unsafe {
            while (self.x.XPending)(self.display) > 0 {
                let mut event = MaybeUninit::<xlib::XEvent>::zeroed().assume_init();
                (self.x.XNextEvent)(self.display, &mut event);
                match event.type_ {
                    xlib::KeyPress | xlib::KeyRelease => {
                        let down = event.type_ == xlib::KeyPress;
                        let symbol = (self.x.XLookupKeysym)(&mut event.key, 0);
                        let held = &mut self.held[event.key.keycode as usize & 255];
                        if down && !*held {
                            events.push(Event::Press);
                        }
                        *held = down;
                        if let Some(direction) = direction(symbol) {
                            events.push(Event::Walk(direction, down));
                        }
                    }
                    xlib::ButtonPress => events.push(Event::Press),
                    xlib::MotionNotify => {
                        let at = event.motion;
                        let part = |place: c_int, all: u32| place as f32 / all.max(1) as f32;
                        events.push(Event::Look(
                            part(at.x, self.size.width),
                            part(at.y, self.size.height),
                        ));
                    }
                    xlib::MapNotify => {
                        // Without a window manager nobody else gives us the keyboard.
                        (self.x.XSetInputFocus)(
                            self.display,
                            self.window,
                            xlib::RevertToPointerRoot,
                            xlib::CurrentTime,
                        );
                    }
                    xlib::ConfigureNotify => {
                        let side = |pixels: c_int| u32::try_from(pixels).unwrap_or(1).max(1);
                        let is = event.configure;
                        let size = Size::new(side(is.width), side(is.height));
                        if size != self.size {
                            self.size = size;
                            events.push(Event::Resized(size));
                        }
                    }
                    xlib::ClientMessage
                        if event.client_message.data.get_long(0) as c_ulong == self.close_atom =>
                    {
                        events.push(Event::Close);
                    }
                    _ => {}
                }
            }
        }
        events
    }

    /// Shows what was drawn, and returns when the X server has it on the display.
    pub(super) fn swap(&self) {
        // SAFETY: display, window and context are alive and current on this thread.
        unsafe {
            (self.glx.glXSwapBuffers)(self.display, self.window);
            (self.x.XSync)(self.display, 0);
        }
    }

    /// Asks the driver not to wait for the screen's refresh: the scene keeps its own clock.
    fn no_vertical_sync(&self) {
        // SAFETY: the functions have the types that GLX_EXT_swap_control and
        // GLX_MESA_swap_control give them, and are called only where the extension is listed.
        unsafe {
            let screen = (self.x.XDefaultScreen)(self.display);
            let list = (self.glx.glXQueryExtensionsString)(self.display, screen);
            if list.is_null() {
                return;
            }
            let list = CStr::from_ptr(list).to_string_lossy();
            let has = |name: &str| list.split(' ').any(|word| word == name);
            let find = |name: &CStr| (self.glx.glXGetProcAddressARB)(name.as_ptr().cast());
            if has("GLX_EXT_swap_control")
                && let Some(function) = find(c"glXSwapIntervalEXT")
            {
                type Ext = unsafe extern "C" fn(*mut xlib::Display, c_ulong, c_int);
                std::mem::transmute::<unsafe extern "C" fn(), Ext>(function)(
                    self.display,
                    self.window,
                    0,
                );
            } else if has("GLX_MESA_swap_control")
                && let Some(function) = find(c"glXSwapIntervalMESA")
            {
                type Mesa = unsafe extern "C" fn(std::ffi::c_uint) -> c_int;
                std::mem::transmute::<unsafe extern "C" fn(), Mesa>(function)(0);
            }
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: all three are alive until here and not used afterwards.
        unsafe {
            (self.glx.glXMakeCurrent)(self.display, 0, null_mut());
            (self.glx.glXDestroyContext)(self.display, self.context);
            (self.x.XDestroyWindow)(self.display, self.window);
            (self.x.XCloseDisplay)(self.display);
        }
    }
}

/// X errors (a window that is gone, focus refused) are no reason to end; Xlib's own handler exits.
unsafe extern "C" fn ignore_error(_: *mut xlib::Display, _: *mut xlib::XErrorEvent) -> c_int {
    0
}

fn direction(symbol: c_ulong) -> Option<Direction> {
    Some(match u32::try_from(symbol).ok()? {
        keysym::XK_w | keysym::XK_Up => Direction::Forward,
        keysym::XK_s | keysym::XK_Down => Direction::Back,
        keysym::XK_a | keysym::XK_Left => Direction::Left,
        keysym::XK_d | keysym::XK_Right => Direction::Right,
        _ => return None,
    })
}

/// A buffer in the GL that pictures are read into. It goes with the window.
pub(super) struct PixelBuffer {
    buffer: glow::Buffer,
    size: Size,
}

impl PixelBuffer {
    /// Its name in the GL.
    pub(super) fn name(&self) -> u32 {
        self.buffer.0.get()
    }

    /// What it has room for.
    pub(super) fn size(&self) -> Size {
        self.size
    }
}

/// Textures, meshes and programs in the GL.
pub(super) struct Renderer {
    gl: glow::Context,
    room: glow::Program,
    code: glow::Program,
    code_texture: glow::Texture,
    code_vertices: (glow::VertexArray, glow::Buffer),
    textures: Vec<glow::Texture>,
    meshes: Vec<(glow::VertexArray, i32, usize)>,
    /// Whether the GL can put the upper row first by itself when it is read.
    inverts: bool,
}

impl Renderer {
    /// Loads everything; `smooth` filters textures, which costs about a fifth of the time in
    /// software.
    pub(super) fn new(
        window: &Window,
        textures: &[Texture],
        meshes: &[Mesh],
        smooth: bool,
    ) -> Result<Renderer> {
        // SAFETY: the window's context is current on this thread for as long as the renderer is
        // used (the loop that owns both never leaves it); buffers are sized by the slices given.
        unsafe {
            let gl = glow::Context::from_loader_function_cstr(|name| {
                (window.glx.glXGetProcAddressARB)(name.as_ptr().cast())
                    .map_or(null(), |function| function as *const _)
            });
            let room = program(&gl, ROOM_VERTEX, ROOM_FRAGMENT)?;
            let code = program(&gl, CODE_VERTEX, CODE_FRAGMENT)?;
            let textures = textures
                .iter()
                .map(|pixels| upload(&gl, pixels, smooth))
                .collect::<Result<_>>()?;
            let meshes = meshes
                .iter()
                .map(|mesh| {
                    let (array, _) = vertices(&gl, &mesh.vertices, &[3, 3, 2])?;
                    indices(&gl, &mesh.indices)?;
                    let count = i32::try_from(mesh.indices.len())?;
                    Ok((array, count, mesh.texture))
                })
                .collect::<Result<_>>()?;
            let code_texture = gl.create_texture().map_err(anyhow::Error::msg)?;
            gl.bind_texture(glow::TEXTURE_2D, Some(code_texture));
            filter(&gl, glow::NEAREST, glow::NEAREST);
            let code_vertices = vertices(&gl, &[0.0; 6 * 4], &[2, 2])?;
            gl.enable(glow::CULL_FACE);
            Ok(Renderer {
                inverts: gl.supported_extensions().contains("GL_MESA_pack_invert"),
                gl,
                room,
                code,
                code_texture,
                code_vertices,
                textures,
                meshes,
            })
        }
    }

    /// Draws the room and waits until it is drawn.
    pub(super) fn draw(&self, size: Size, frame: &Frame) {
        let gl = &self.gl;
        // SAFETY: see `new`; all names were made by this context.
        unsafe {
            gl.viewport(0, 0, pixels(size.width), pixels(size.height));
            // The room is closed and convex: its shell paints each pixel once, behind everything,
            // and only what stands in it needs depth.
            gl.clear(glow::DEPTH_BUFFER_BIT);
            gl.disable(glow::DEPTH_TEST);
            gl.use_program(Some(self.room));
            let place = |name: &str| gl.get_uniform_location(self.room, name);
            gl.uniform_matrix_4_f32_slice(place("camera").as_ref(), false, &frame.camera.0);
            let [r, g, b] = frame.ambient;
            gl.uniform_3_f32(place("ambient").as_ref(), r, g, b);
            let flat: Vec<f32> = frame.lights.iter().flat_map(|l| l.place).collect();
            gl.uniform_3_f32_slice(place("light_place").as_ref(), &flat);
            let flat: Vec<f32> = frame.lights.iter().flat_map(|l| l.colour).collect();
            gl.uniform_3_f32_slice(place("light_colour").as_ref(), &flat);
            let (model, glow_at) = (place("model"), place("glow"));
            for (index, thing) in frame.shell.iter().chain(&frame.things).enumerate() {
                if index == frame.shell.len() {
                    gl.enable(glow::DEPTH_TEST);
                }
                let (array, count, texture) = self.meshes[thing.mesh];
                gl.uniform_matrix_4_f32_slice(model.as_ref(), false, &thing.model.0);
                let [r, g, b] = thing.glow;
                gl.uniform_3_f32(glow_at.as_ref(), r, g, b);
                gl.bind_texture(glow::TEXTURE_2D, Some(self.textures[texture]));
                gl.bind_vertex_array(Some(array));
                gl.draw_elements(glow::TRIANGLES, count, glow::UNSIGNED_SHORT, 0);
            }
            gl.finish();
        }
    }

    /// Draws the bar code over what is there.
    pub(super) fn draw_code(&self, size: Size, cells: &[bool; barcode::CELLS]) {
        let texels: Vec<u8> = cells
            .iter()
            .flat_map(|&white| [if white { 255 } else { 0 }; 3])
            .collect();
        let (width, height) = (size.width.max(1) as f32, size.height.max(1) as f32);
        let cell = width / barcode::CELLS_ACROSS as f32;
        let right = -1.0 + 2.0 * cell * barcode::COLUMNS as f32 / width;
        let bottom = 1.0 - 2.0 * cell * barcode::ROWS as f32 / height;
        // Position, then place in the texture, whose first row is the upper one.
        let corner = |x: bool, y: bool| {
            [
                if x { right } else { -1.0 },
                if y { bottom } else { 1.0 },
                if x { 1.0 } else { 0.0 },
                if y { 1.0 } else { 0.0 },
            ]
        };
        let (a, b) = (corner(false, false), corner(false, true));
        let (c, d) = (corner(true, true), corner(true, false));
        let quad = [a, b, c, a, c, d].concat();
        let gl = &self.gl;
        // SAFETY: see `new`; the texture upload reads exactly CELLS × 3 bytes, rows of 192 bytes
        // (a multiple of the default alignment of 4).
        unsafe {
            gl.disable(glow::DEPTH_TEST);
            gl.use_program(Some(self.code));
            gl.bind_texture(glow::TEXTURE_2D, Some(self.code_texture));
            gl.tex_image_2d(
                glow::TEXTURE_2D,
                0,
                glow::RGB8 as i32,
                barcode::COLUMNS as i32,
                barcode::ROWS as i32,
                0,
                glow::RGB,
                glow::UNSIGNED_BYTE,
                glow::PixelUnpackData::Slice(Some(&texels)),
            );
            gl.bind_vertex_array(Some(self.code_vertices.0));
            gl.bind_buffer(glow::ARRAY_BUFFER, Some(self.code_vertices.1));
            gl.buffer_data_u8_slice(glow::ARRAY_BUFFER, &bytes(&quad), glow::STREAM_DRAW);
            gl.draw_arrays(glow::TRIANGLES, 0, 6);
        }
    }

    /// Reads what is drawn, before it is swapped: BGRX, the upper row first. `into` must have
    /// room for exactly `size`.
    pub(super) fn read(&self, size: Size, into: &mut [u8]) {
        const PACK_INVERT_MESA: u32 = 0x8758; // GL_MESA_pack_invert
        let row = size.width as usize * 4;
        assert_eq!(into.len(), size.pixels() * 4, "room for one picture");
        let gl = &self.gl;
        // SAFETY: see `new`; the room was checked, and rows of whole pixels of 4 bytes have no
        // bytes between them.
        unsafe {
            if self.inverts {
                gl.pixel_store_i32(PACK_INVERT_MESA, 1);
            }
            gl.read_pixels(
                0,
                0,
                pixels(size.width),
                pixels(size.height),
                glow::BGRA,
                glow::UNSIGNED_BYTE,
                glow::PixelPackData::Slice(Some(&mut *into)),
            );
        }
        if !self.inverts {
            // The GL's first row is the lowest.
            let (upper, lower) = into.split_at_mut(row * (size.height as usize / 2));
            let middle = (size.height as usize % 2) * row;
            let pairs = upper
                .chunks_exact_mut(row)
                .zip(lower[middle..].chunks_exact_mut(row).rev());
            for (above, below) in pairs {
                above.swap_with_slice(below);
            }
        }
    }

    /// A buffer for pictures of `size`, BGRA without gaps, the lowest row first.
    pub(super) fn pixel_buffer(&self, size: Size) -> Result<PixelBuffer> {
        let gl = &self.gl;
        // SAFETY: see `new`.
        unsafe {
            let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(buffer));
            let bytes = i32::try_from(size.pixels() * 4)?;
            gl.buffer_data_size(glow::PIXEL_PACK_BUFFER, bytes, glow::DYNAMIC_COPY);
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
            Ok(PixelBuffer { buffer, size })
        }
    }

    /// Reads what is drawn, before it is swapped, into a buffer.
    pub(super) fn read_into(&self, into: &PixelBuffer) {
        let gl = &self.gl;
        // SAFETY: see `new`; the buffer has room for a picture of its size.
        unsafe {
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, Some(into.buffer));
            gl.read_pixels(
                0,
                0,
                pixels(into.size.width),
                pixels(into.size.height),
                glow::BGRA,
                glow::UNSIGNED_BYTE,
                glow::PixelPackData::BufferOffset(0),
            );
            gl.bind_buffer(glow::PIXEL_PACK_BUFFER, None);
        }
    }

    /// What draws: the GL's own name for it.
    pub(super) fn name(&self) -> String {
        // SAFETY: the context is current; see `new`.
        unsafe { self.gl.get_parameter_string(glow::RENDERER) }
    }
}

fn pixels(side: u32) -> i32 {
    i32::try_from(side).unwrap_or(i32::MAX)
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn program(gl: &glow::Context, vertex: &str, fragment: &str) -> Result<glow::Program> {
    // SAFETY: by this function's contract.
    unsafe {
        let program = gl.create_program().map_err(anyhow::Error::msg)?;
        for (kind, source) in [
            (glow::VERTEX_SHADER, vertex),
            (glow::FRAGMENT_SHADER, fragment),
        ] {
            let shader = gl.create_shader(kind).map_err(anyhow::Error::msg)?;
            gl.shader_source(shader, source);
            gl.compile_shader(shader);
            if !gl.get_shader_compile_status(shader) {
                bail!(
                    "this OpenGL refuses a shader: {}",
                    gl.get_shader_info_log(shader)
                );
            }
            gl.attach_shader(program, shader);
            gl.delete_shader(shader);
        }
        for (index, name) in ["place", "normal", "at"].iter().enumerate() {
            // Two-part vertices have no normal; their second part takes its number.
            let index = if vertex == CODE_VERTEX && *name == "at" {
                1
            } else {
                index as u32
            };
            gl.bind_attrib_location(program, index, name);
        }
        gl.link_program(program);
        if !gl.get_program_link_status(program) {
            bail!(
                "this OpenGL refuses a program: {}",
                gl.get_program_info_log(program)
            );
        }
        Ok(program)
    }
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn vertices(
    gl: &glow::Context,
    data: &[f32],
    parts: &[i32],
) -> Result<(glow::VertexArray, glow::Buffer)> {
    // SAFETY: by this function's contract; offsets stay within the stride.
    unsafe {
        let array = gl.create_vertex_array().map_err(anyhow::Error::msg)?;
        gl.bind_vertex_array(Some(array));
        let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
        gl.bind_buffer(glow::ARRAY_BUFFER, Some(buffer));
        gl.buffer_data_u8_slice(glow::ARRAY_BUFFER, &bytes(data), glow::STATIC_DRAW);
        let stride = parts.iter().sum::<i32>() * 4;
        let mut offset = 0;
        for (index, &part) in parts.iter().enumerate() {
            let index = index as u32;
            gl.enable_vertex_attrib_array(index);
            gl.vertex_attrib_pointer_f32(index, part, glow::FLOAT, false, stride, offset);
            offset += part * 4;
        }
        Ok((array, buffer))
    }
}

/// Adds `data` as the indices of the vertex array that is bound.
///
/// # Safety
/// The context of `gl` must be current.
unsafe fn indices(gl: &glow::Context, data: &[u16]) -> Result<()> {
    let bytes: Vec<u8> = data.iter().flat_map(|index| index.to_ne_bytes()).collect();
    // SAFETY: by this function's contract.
    unsafe {
        let buffer = gl.create_buffer().map_err(anyhow::Error::msg)?;
        gl.bind_buffer(glow::ELEMENT_ARRAY_BUFFER, Some(buffer));
        gl.buffer_data_u8_slice(glow::ELEMENT_ARRAY_BUFFER, &bytes, glow::STATIC_DRAW);
    }
    Ok(())
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn upload(gl: &glow::Context, pixels: &Texture, smooth: bool) -> Result<glow::Texture> {
    // SAFETY: by this function's contract; a `Texture` always holds SIDE × SIDE × 3 bytes.
    unsafe {
        let texture = gl.create_texture().map_err(anyhow::Error::msg)?;
        gl.bind_texture(glow::TEXTURE_2D, Some(texture));
        let side = texture::SIDE as i32;
        gl.tex_image_2d(
            glow::TEXTURE_2D,
            0,
            glow::RGB8 as i32,
            side,
            side,
            0,
            glow::RGB,
            glow::UNSIGNED_BYTE,
            glow::PixelUnpackData::Slice(Some(&pixels.0)),
        );
        if smooth {
            filter(gl, glow::LINEAR, glow::LINEAR);
        } else {
            filter(gl, glow::NEAREST, glow::NEAREST);
        }
        Ok(texture)
    }
}

/// # Safety
/// The context of `gl` must be current.
unsafe fn filter(gl: &glow::Context, shrink: u32, grow: u32) {
    // SAFETY: by this function's contract.
    unsafe {
        gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MIN_FILTER, shrink as i32);
        gl.tex_parameter_i32(glow::TEXTURE_2D, glow::TEXTURE_MAG_FILTER, grow as i32);
    }
}

/// Light is computed at vertices, which is what makes the room cheap without a GPU.
const ROOM_VERTEX: &str = "#version 130
in vec3 place; in vec3 normal; in vec2 at;
uniform mat4 camera, model; uniform vec3 ambient, glow;
uniform vec3 light_place[3]; uniform vec3 light_colour[3];
out vec2 uv; out vec3 light;
void main() {
    vec4 world = model * vec4(place, 1.0);
    vec3 facing = normalize(mat3(model) * normal);
    vec3 sum = ambient;
    for (int i = 0; i < 3; i++) {
        vec3 way = light_place[i] - world.xyz;
        float far = dot(way, way);
        sum += light_colour[i] * max(0.0, dot(facing, way) * inversesqrt(far)) / (1.0 + 0.16 * far);
    }
    light = sum + glow; uv = at; gl_Position = camera * world;
}";
const ROOM_FRAGMENT: &str = "#version 130
in vec2 uv; in vec3 light; uniform sampler2D picture; out vec4 colour;
void main() { colour = vec4(texture(picture, uv).rgb * light, 1.0); }";
const CODE_VERTEX: &str = "#version 130
in vec2 place; in vec2 at; out vec2 uv;
void main() { uv = at; gl_Position = vec4(place, 0.0, 1.0); }";
const CODE_FRAGMENT: &str = "#version 130
in vec2 uv; uniform sampler2D picture; out vec4 colour;
void main() { colour = texture(picture, uv); }";
