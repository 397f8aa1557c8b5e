//! The set of renditions, and the thread that produces each rendition.
//!
//! A rendition starts with its first subscriber and ends when its last subscriber leaves. Its encoder is then closed,
//! and its thread, if any, ends. The media thread produces the player's rendition. If there is no player, the media
//! thread keeps its current rendition. When this rendition ends, the media thread takes over the oldest secondary
//! rendition. Secondary renditions have their own threads.

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::units::Bitrate;

use super::pipeline::{PictureInfo, Pipeline};
use super::secondary::{ReturnedPipeline, SecondaryRendition, SharedPicture};
use super::{Arc, Converter, Media, MediaCommand, Notice, clock};
use crate::host::encodings::Assigned;

impl Media {
    /// Handles a command or forwards it to its rendition. During a frame, only feedback and retransmission requests may
    /// be handled.
    pub(super) fn command_media(&mut self, command: MediaCommand) {
        match &command {
            MediaCommand::Returned(_) => return self.returned(command),
            MediaCommand::Limit(bitrate_limit) => return self.limit(*bitrate_limit),
            MediaCommand::KeyFrameInterval(frames) => return self.set_key_frame_interval(*frames),
            MediaCommand::Role(id, Role::Player)
            | MediaCommand::Add {
                id,
                role: Role::Player,
                ..
            } => self.role.begins(*id),
            MediaCommand::Role(id, Role::Observer) | MediaCommand::Remove(id) => {
                self.role.ends(*id);
            }
            _ => {}
        }
        if let MediaCommand::Add { assigned, .. } = command {
            return self.add(assigned, command);
        }
        let Some(id) = command.subscriber() else {
            return;
        };
        if let Some(primary) = &mut self.primary
            && primary.has_subscriber(id)
        {
            return primary.command_media(command);
        }
        let of = |secondary: &&mut SecondaryRendition| secondary.members.contains(&id);
        if let Some(secondary) = self.secondaries.iter_mut().find(of) {
            secondary.command_media(command);
        }
    }

    /// Adds a subscriber to a rendition. The first subscriber creates the rendition.
    fn add(&mut self, assigned: Assigned, command: MediaCommand) {
        let id = assigned.rendition;
        if let Some(secondary) = self
            .secondaries
            .iter_mut()
            .find(|secondary| secondary.id == id)
        {
            return secondary.command_media(command);
        }
        if let Some(primary) = self.primary.as_mut().filter(|primary| primary.id() == id) {
            return primary.command_media(command);
        }
        let converter = match self.primary {
            None => std::mem::take(&mut self.converter),
            Some(_) => Converter::new(),
        };
        let shared = self.shared.clone();
        let mut pipeline = Pipeline::new(shared, &self.encodings, assigned, converter);
        if let Some(bitrate_limit) = self.bitrate_limit {
            pipeline.limit(bitrate_limit);
        }
        if let Some(frames) = self.key_frame_interval {
            pipeline.set_key_frame_interval(frames);
        }
        pipeline.command_media(command);
        self.place(pipeline);
    }

    /// Limits the bitrate of each rendition, starting with the next frame.
    pub(super) fn limit(&mut self, bitrate_limit: Bitrate) {
        self.bitrate_limit = Some(bitrate_limit);
        if let Some(primary) = &mut self.primary {
            primary.limit(bitrate_limit);
        }
        for secondary in &mut self.secondaries {
            secondary.limit(bitrate_limit);
        }
    }

    /// Changes the GOP size of each rendition, starting with the next frame.
    pub(super) fn set_key_frame_interval(&mut self, frames: Option<u32>) {
        self.key_frame_interval = Some(frames);
        if let Some(primary) = &mut self.primary {
            primary.set_key_frame_interval(frames);
        }
        for secondary in &mut self.secondaries {
            secondary.set_key_frame_interval(frames);
        }
    }

    /// Moves a rendition to this thread if it is the player's rendition or this thread has none, and otherwise to its
    /// own thread.
    fn place(&mut self, mut pipeline: Pipeline) {
        let player = self.role.player();
        let plays = player.is_some_and(|player| pipeline.has_subscriber(player));
        match self.primary.take() {
            None => self.primary = Some(pipeline),
            Some(before) if plays => {
                self.primary = Some(pipeline);
                self.start_secondary(before.prepare_move());
            }
            Some(primary) => {
                self.primary = Some(primary);
                self.start_secondary(pipeline);
            }
        }
    }

    fn start_secondary(&mut self, pipeline: Pipeline) {
        let returns = (self.returns.clone(), self.capture.waker());
        let id = pipeline.id();
        match SecondaryRendition::start(pipeline, &self.shared, &self.scheduler, returns) {
            Ok(mut secondary) => {
                // Submit the current picture, because the next capture may take a while.
                if let Some(picture) = self.capture.picture() {
                    secondary.offer(SharedPicture {
                        picture: Arc::new(self.pool.copy_of(&picture)),
                        size: picture.size,
                        info: PictureInfo {
                            captured: clock::now(),
                            drawn: self.capture.render_info(),
                            injected: None,
                        },
                        changed: None,
                        superseded: 0,
                        links: Vec::new(),
                    });
                }
                self.secondaries.push(secondary);
            }
            Err(e) => {
                let why = format!("{id} not started: can't start a thread: {e}");
                self.shared.notice(Notice::Warning(why));
            }
        }
    }

    /// Ends renditions without subscribers. Recalls the player's rendition if it is in another thread. Without a
    /// player, recalls the oldest rendition if this thread has none.
    pub(super) fn settle(&mut self) {
        if let Some(unwatched) = self.primary.take_if(|primary| primary.is_unwatched()) {
            self.converter = unwatched.end();
        }
        while let Some(at) =
            (self.secondaries.iter()).position(|secondary| secondary.members.is_empty())
        {
            let (thread, _) = self.secondaries.swap_remove(at).end();
            self.ending.push(thread);
        }
        while let Some(at) = self.ending.iter().position(|thread| thread.is_finished()) {
            // A panic was already reported.
            let _ = self.ending.swap_remove(at).join();
        }
        if self.primary.is_some() && !self.role.is_settled() {
            return;
        }
        let player = self.role.player();
        let plays = |secondary: &&SecondaryRendition| {
            player.is_some_and(|player| secondary.members.contains(&player))
        };
        let oldest = self.secondaries.iter().min_by_key(|secondary| secondary.id);
        let oldest = oldest.filter(|_| self.primary.is_none());
        if let Some(chosen) = self.secondaries.iter().find(plays).or(oldest) {
            chosen.recall();
        }
    }

    /// Handles a pipeline that its thread has returned.
    fn returned(&mut self, command: MediaCommand) {
        let MediaCommand::Returned(returned) = command else {
            return;
        };
        let index = (self.secondaries.iter()).position(|secondary| secondary.owns(&returned));
        let ReturnedPipeline {
            mut pipeline,
            media_commands,
            ..
        } = *returned;
        let ended = index.map(|index| self.secondaries.swap_remove(index).end());
        let unsent = ended.map(|(thread, unsent)| {
            self.ending.push(thread);
            unsent
        });
        for command in media_commands
            .try_iter()
            .chain(unsent.into_iter().flatten())
        {
            pipeline.command_media(command);
        }
        match pipeline.is_unwatched() {
            true => drop(pipeline.end()),
            false => self.place(pipeline),
        }
    }

    /// Ends all renditions because the host stops or the source has ended.
    pub(super) fn end_all(self) {
        // Closing the channel unblocks threads that wait for room in it.
        drop(self.media_commands);
        if let Some(primary) = self.primary {
            primary.end();
        }
        let secondary = self
            .secondaries
            .into_iter()
            .map(|secondary| secondary.end().0);
        for thread in secondary.collect::<Vec<_>>().into_iter().chain(self.ending) {
            let _ = thread.join();
        }
    }
}
