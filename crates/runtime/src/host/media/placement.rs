//! Which renditions there are, and in which thread each is made.
//!
//! A rendition begins with its first subscriber and ends with its last: then its encoder is closed and its
//! thread, if it had one, ends. The capturing thread makes the player's; without a player, the one that
//! has been there longest. All others have threads of their own.

use openuvr_proto::control::negotiate::Role;
use openuvr_proto::units::Bitrate;

use super::further::{Further, Returned, Waiting};
use super::pipeline::{Circumstances, Pipeline};
use super::{Arc, Converter, Media, MediaCommand, Notice, clock};
use crate::host::encodings::Assigned;

impl Media {
    /// Does what is asked, or passes it on to the rendition that it is for. Not in the middle of a frame,
    /// but for what subscribers say of frames.
    pub(super) fn command_media(&mut self, command: MediaCommand) {
        match &command {
            MediaCommand::Returned(_) => return self.returned(command),
            MediaCommand::Limit(highest) => return self.limit(*highest),
            MediaCommand::Role(id, Role::Player)
            | MediaCommand::Add {
                id,
                role: Role::Player,
                ..
            } => self.player = Some(*id),
            MediaCommand::Role(id, Role::Observer) | MediaCommand::Remove(id) => {
                self.player.take_if(|player| player == id);
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
            && primary.has(id)
        {
            return primary.command_media(command);
        }
        let of = |further: &&mut Further| further.members.contains(&id);
        if let Some(further) = self.further.iter_mut().find(of) {
            further.command_media(command);
        }
    }

    /// Somebody subscribes to a rendition, perhaps as the first.
    fn add(&mut self, assigned: Assigned, command: MediaCommand) {
        let id = assigned.rendition;
        if let Some(further) = self.further.iter_mut().find(|further| further.id == id) {
            return further.command_media(command);
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
        if let Some(highest) = self.highest {
            pipeline.limit(highest);
        }
        pipeline.command_media(command);
        self.place(pipeline);
    }

    /// What the video of each rendition may take at most from the next frame on.
    pub(super) fn limit(&mut self, highest: Bitrate) {
        self.highest = Some(highest);
        if let Some(primary) = &mut self.primary {
            primary.limit(highest);
        }
        for further in &mut self.further {
            further.limit(highest);
        }
    }

    /// Here, if it is the player's or there is no other; else in a thread of its own.
    fn place(&mut self, mut pipeline: Pipeline) {
        let plays = self.player.is_some_and(|player| pipeline.has(player));
        match self.primary.take() {
            None => self.primary = Some(pipeline),
            Some(before) if plays => {
                self.primary = Some(pipeline);
                self.start_further(before.moved());
            }
            Some(primary) => {
                self.primary = Some(primary);
                self.start_further(pipeline);
            }
        }
    }

    fn start_further(&mut self, pipeline: Pipeline) {
        let way_back = (self.back.clone(), self.capture.waker());
        let id = pipeline.id();
        match Further::start(pipeline, &self.shared, &self.scheduler, way_back) {
            Ok(mut further) => {
                // Nothing may move for a while.
                if let Some(picture) = self.capture.picture() {
                    further.offer(Waiting {
                        picture: Arc::new(self.pool.copy_of(&picture)),
                        size: picture.size,
                        about: Circumstances {
                            captured: clock::now(),
                            drawn: self.capture.drawn(),
                            injected: None,
                        },
                        changed: None,
                        superseded: 0,
                        links: Vec::new(),
                    });
                }
                self.further.push(further);
            }
            Err(e) => {
                let why = format!("{id} is not made: can't start a thread: {e}");
                self.shared.notice(Notice::Trouble(why));
            }
        }
    }

    /// Ends what nobody takes, and asks for the player's rendition if another thread makes it.
    pub(super) fn settle(&mut self) {
        if let Some(unwatched) = self.primary.take_if(|primary| primary.is_unwatched()) {
            self.converter = unwatched.end();
        }
        while let Some(at) = (self.further.iter()).position(|further| further.members.is_empty()) {
            let (thread, _) = self.further.swap_remove(at).end();
            self.ending.push(thread);
        }
        while let Some(at) = self.ending.iter().position(|thread| thread.is_finished()) {
            // One that panicked has said so.
            let _ = self.ending.swap_remove(at).join();
        }
        let plays = |further: &&Further| {
            self.player
                .is_some_and(|player| further.members.contains(&player))
        };
        let oldest = self.further.iter().min_by_key(|further| further.id);
        let oldest = oldest.filter(|_| self.primary.is_none());
        if let Some(wanted) = self.further.iter().find(plays).or(oldest) {
            wanted.want_back();
        }
    }

    /// A pipeline has come back from its thread.
    fn returned(&mut self, command: MediaCommand) {
        let MediaCommand::Returned(returned) = command else {
            return;
        };
        let place = (self.further.iter()).position(|further| further.gave(&returned));
        let Returned {
            mut pipeline,
            media_commands,
            ..
        } = *returned;
        let ended = place.map(|place| self.further.swap_remove(place).end());
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

    /// The host stops, or the source has ended.
    pub(super) fn end_all(self) {
        // Nobody waits for room in them any more.
        drop(self.media_commands);
        if let Some(primary) = self.primary {
            primary.end();
        }
        let further = self.further.into_iter().map(|further| further.end().0);
        for thread in further.collect::<Vec<_>>().into_iter().chain(self.ending) {
            let _ = thread.join();
        }
    }
}
