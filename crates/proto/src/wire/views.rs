//! The viewpoints and fields of view of a frame's picture.

use serde::{Deserialize, Serialize};

use crate::bytes::{Reader, Reject, Writer};
use crate::field_of_view::FieldOfView;
use crate::pose::Pose;

/// One eye's part of a picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    /// The pose of the eye for which this part was drawn, in the coordinate space of the player's own poses. The
    /// velocities of the pose are not sent.
    pub pose: Pose,
    /// The field of view of the eye.
    pub fov: FieldOfView,
}

/// The views of a picture: either one view, or one view for the left eye and one for the right. The views are side by
/// side from left to right, and have equal widths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(View, Option<View>)", into = "(View, Option<View>)")]
pub struct Views {
    first: View,
    second: Option<View>,
}

impl From<(View, Option<View>)> for Views {
    fn from((first, second): (View, Option<View>)) -> Views {
        Views {
            first: still(first),
            second: second.map(still),
        }
    }
}

impl From<Views> for (View, Option<View>) {
    fn from(views: Views) -> (View, Option<View>) {
        (views.first, views.second)
    }
}

impl Views {
    /// The views of a picture with one view.
    #[must_use]
    pub fn one(view: View) -> Views {
        Views {
            first: still(view),
            second: None,
        }
    }

    /// The views of a picture with two views.
    #[must_use]
    pub fn two(left: View, right: View) -> Views {
        Views {
            first: still(left),
            second: Some(still(right)),
        }
    }

    /// The views from left to right; `None` for zero or more than two views.
    pub fn from_views(views: impl IntoIterator<Item = View>) -> Option<Views> {
        let mut views = views.into_iter();
        match (views.next()?, views.next(), views.next()) {
            (first, None, _) => Some(Views::one(first)),
            (left, Some(right), None) => Some(Views::two(left, right)),
            _ => None,
        }
    }

    /// The views from left to right.
    pub fn iter(&self) -> impl Iterator<Item = &View> + Clone {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// The number of views: 1 or 2.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }

    /// The view of the left eye, or the only view.
    #[must_use]
    pub fn left(&self) -> &View {
        &self.first
    }

    /// The view of the right eye, or the only view.
    #[must_use]
    pub fn right(&self) -> &View {
        self.second.as_ref().unwrap_or(&self.first)
    }

    /// The encoded size of the views in bytes.
    pub(super) fn len(&self) -> usize {
        1 + self.count() * (Pose::PLACE_LEN + FieldOfView::LEN)
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.u8(if self.second.is_some() { 2 } else { 1 });
        for view in self.iter() {
            view.pose.write_place(w);
            view.fov.write(w);
        }
    }

    /// Returns `None` if the number of views is not 1 or 2, or a view is invalid.
    pub(super) fn parse(r: &mut Reader<'_>) -> Result<Option<Views>, Reject> {
        let count = r.u8()?;
        if !(1..=2).contains(&count) {
            return Ok(None);
        }
        let first = View::parse(r)?;
        let second = match count {
            2 => Some(View::parse(r)?),
            _ => None,
        };
        Ok(match (first, second) {
            (Some(first), None) => Some(Views::one(first)),
            (Some(left), Some(Some(right))) => Some(Views::two(left, right)),
            _ => None,
        })
    }
}

impl View {
    fn parse(r: &mut Reader<'_>) -> Result<Option<View>, Reject> {
        let (pose, fov) = (Pose::parse_place(r)?, FieldOfView::parse(r)?);
        Ok(pose.zip(fov).map(|(pose, fov)| View { pose, fov }))
    }
}

/// The view without the velocities, which are not encoded.
fn still(view: View) -> View {
    View {
        pose: view.pose.still(),
        ..view
    }
}
