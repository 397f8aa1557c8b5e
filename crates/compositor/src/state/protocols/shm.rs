//! wl_shm, with limits. Each pool takes a file descriptor and a memory mapping of this process as long as the pool or
//! one of its buffers exists or is shown.

use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::Ordering;

use rustix::process::{Resource as Limited, getrlimit};
use smithay::reexports::wayland_server::backend::ClientId;
use smithay::reexports::wayland_server::backend::protocol::ProtocolError;
use smithay::reexports::wayland_server::protocol::wl_buffer::{self, WlBuffer};
use smithay::reexports::wayland_server::protocol::wl_shm::{self, WlShm};
use smithay::reexports::wayland_server::protocol::wl_shm_pool::{self, WlShmPool};
use smithay::reexports::wayland_server::{Client, DataInit, Dispatch, DisplayHandle, Resource};
use smithay::wayland::shm::{ShmBufferUserData, ShmHandler, ShmPoolUserData, ShmState};

use crate::state::{ClientState, State};

/// The maximum number of pools and buffers of one client (guess: far more than any toolkit uses).
const MAX_OBJECTS: usize = 4096;

/// Number of descriptors of this process that applications do not get (guess: a host uses some dozens).
const RESERVED: u64 = 256;

/// The limit of descriptor numbers: a descriptor from an application must have a lower number. The kernel assigns the
/// lowest free number, so the number indicates how many descriptors are open.
pub(crate) fn descriptor_limit() -> RawFd {
    let all = getrlimit(Limited::Nofile).current.unwrap_or(u64::MAX);
    let limit = all - RESERVED.min(all / 2);
    RawFd::try_from(limit).unwrap_or(RawFd::MAX)
}

/// Counts a new pool or buffer of a client. Returns `false` and disconnects the client if the client has too many of
/// them.
fn count(client: &Client, handle: &DisplayHandle) -> bool {
    let data = client.get_data::<ClientState>();
    let before = data.map_or(0, |data| data.shm_objects.fetch_add(1, Ordering::Relaxed));
    let may = before < MAX_OBJECTS;
    if !may {
        end(
            client,
            handle,
            &format!("more than {MAX_OBJECTS} pools and buffers"),
        );
    }
    may
}

fn uncount<R: Resource>(object: &R) {
    let client = object.client();
    if let Some(data) = client.as_ref().and_then(Client::get_data::<ClientState>) {
        data.shm_objects.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Disconnects a client that uses too much.
fn end(client: &Client, handle: &DisplayHandle, why: &str) {
    let error = ProtocolError {
        // wl_display.error.no_memory
        code: 2,
        object_id: 1,
        object_interface: "wl_display".to_owned(),
        message: why.to_owned(),
    };
    client.kill(handle, error);
}

impl ShmHandler for State {
    fn shm_state(&self) -> &ShmState {
        &self.globals.shm
    }
}

impl Dispatch<WlShm, ()> for State {
    fn request(
        state: &mut State,
        client: &Client,
        shm: &WlShm,
        request: wl_shm::Request,
        data: &(),
        handle: &DisplayHandle,
        init: &mut DataInit<'_, State>,
    ) {
        if let wl_shm::Request::CreatePool { fd, .. } = &request {
            if fd.as_raw_fd() >= state.descriptor_limit {
                end(client, handle, "too few descriptors are left");
            }
            count(client, handle);
        }
        <ShmState as Dispatch<WlShm, (), State>>::request(
            state, client, shm, request, data, handle, init,
        );
    }
}

impl Dispatch<WlShmPool, ShmPoolUserData> for State {
    fn request(
        state: &mut State,
        client: &Client,
        pool: &WlShmPool,
        request: wl_shm_pool::Request,
        data: &ShmPoolUserData,
        handle: &DisplayHandle,
        init: &mut DataInit<'_, State>,
    ) {
        if let wl_shm_pool::Request::CreateBuffer { .. } = &request {
            count(client, handle);
        }
        <ShmState as Dispatch<WlShmPool, ShmPoolUserData, State>>::request(
            state, client, pool, request, data, handle, init,
        );
    }

    fn destroyed(_: &mut State, _: ClientId, pool: &WlShmPool, _: &ShmPoolUserData) {
        uncount(pool);
    }
}

impl Dispatch<WlBuffer, ShmBufferUserData> for State {
    fn request(
        state: &mut State,
        client: &Client,
        buffer: &WlBuffer,
        request: wl_buffer::Request,
        data: &ShmBufferUserData,
        handle: &DisplayHandle,
        init: &mut DataInit<'_, State>,
    ) {
        <ShmState as Dispatch<WlBuffer, ShmBufferUserData, State>>::request(
            state, client, buffer, request, data, handle, init,
        );
    }

    fn destroyed(state: &mut State, client: ClientId, buffer: &WlBuffer, data: &ShmBufferUserData) {
        uncount(buffer);
        <ShmState as Dispatch<WlBuffer, ShmBufferUserData, State>>::destroyed(
            state, client, buffer, data,
        );
    }
}

smithay::reexports::wayland_server::delegate_global_dispatch!(State: [WlShm: ()] => ShmState);
