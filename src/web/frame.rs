//! Frames: the sections of the page at one moment, and what changed since an earlier one.

use std::time::Instant;

use maud::Markup;

/// A part of the page: an element with an id.
pub struct Section {
    pub id: &'static str,
    pub html: Markup,
    /// Elements within it that are replaced one by one as long as `shape` stays: their ids and HTML.
    pub parts: Vec<(String, String)>,
    /// The section without its parts. While it stays the same, parts are replaced one by one.
    pub shape: String,
}

impl Section {
    /// A section that is replaced whole.
    pub fn whole(id: &'static str, html: Markup) -> Self {
        let shape = html.0.clone();
        Self { id, html, parts: Vec::new(), shape }
    }
}

/// A section, and the numbers of the frames in which it changed last: as a whole, and each part.
struct Shown {
    section: Section,
    changed: u64,
    parts_changed: Vec<u64>,
}

/// The sections at one moment.
pub struct Frame {
    pub number: u64,
    /// The next frame is not made before.
    pub due: Instant,
    sections: Vec<Shown>,
    /// Sections that an earlier frame had, and the frame from which on they are gone.
    gone: Vec<(&'static str, u64)>,
}

impl Frame {
    /// The frame before the first one.
    pub fn empty(number: u64) -> Self {
        Self { number, due: Instant::now(), sections: Vec::new(), gone: Vec::new() }
    }

    /// The frame after this one.
    pub fn next(&self, sections: Vec<Section>, due: Instant) -> Self {
        let number = self.number + 1;
        let shown = |section: Section| {
            let same = self.sections.iter().find(|old| old.section.id == section.id);
            match same.filter(|old| old.section.shape == section.shape) {
                Some(old) => old.followed_by(section, number),
                None => Shown { changed: number, parts_changed: vec![number; section.parts.len()], section },
            }
        };
        let sections: Vec<_> = sections.into_iter().map(shown).collect();
        let is_gone = |id: &'static str| sections.iter().all(|shown| shown.section.id != id);
        let now = self.sections.iter().map(|old| (old.section.id, number));
        let gone = self.gone.iter().copied().chain(now).filter(|(id, _)| is_gone(id)).collect();
        Self { number, due, sections, gone }
    }

    /// The elements that changed after frame number `seen`, with their HTML: none of a section that is gone.
    pub fn since(&self, seen: u64) -> Vec<(&str, &str)> {
        let gone = self.gone.iter().filter(|(_, since)| *since > seen && seen > 0).map(|(id, _)| (*id, ""));
        self.sections.iter().flat_map(|shown| shown.since(seen)).chain(gone).collect()
    }

    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().map(|shown| &shown.section)
    }
}

impl Shown {
    /// The section in the frame `number`, with the same shape.
    fn followed_by(&self, section: Section, number: u64) -> Self {
        let changed = |(at, part): (usize, &(String, String))| {
            let old = self.section.parts.get(at).zip(self.parts_changed.get(at));
            old.filter(|(old, _)| *old == part).map_or(number, |(_, changed)| *changed)
        };
        let parts_changed = section.parts.iter().enumerate().map(changed).collect();
        Self { changed: self.changed, parts_changed, section }
    }

    fn since(&self, seen: u64) -> Vec<(&str, &str)> {
        if self.changed > seen {
            return vec![(self.section.id, &self.section.html.0)];
        }
        let parts = self.section.parts.iter().zip(&self.parts_changed);
        parts.filter(|(_, changed)| **changed > seen).map(|((id, html), _)| (&**id, &**html)).collect()
    }
}

#[cfg(test)]
mod tests {
    use maud::PreEscaped;

    use super::*;

    fn section(id: &'static str, shape: &str, parts: &[&str]) -> Section {
        let html = PreEscaped(format!("{shape}{}", parts.concat()));
        let parts = parts.iter().enumerate().map(|(at, html)| (format!("{id}{at}"), html.to_string())).collect();
        Section { id, html, parts, shape: shape.into() }
    }

    /// A reader is given what it has not seen, however many frames it has skipped.
    #[test]
    fn what_changed_is_known_by_element() {
        let now = Instant::now();
        let first = Frame::empty(7).next(vec![section("a", "x", &["1", "2"]), section("b", "y", &[])], now);
        assert_eq!(first.since(0), [("a", "x12"), ("b", "y")]);
        assert!(first.since(first.number).is_empty());
        let second = first.next(vec![section("a", "x", &["1", "3"]), section("b", "y", &[])], now);
        assert_eq!(second.since(first.number), [("a1", "3")]);
        let third = second.next(vec![section("a", "x", &["4", "3"]), section("b", "z", &[])], now);
        assert_eq!(third.since(first.number), [("a0", "4"), ("a1", "3"), ("b", "z")]);
        assert_eq!(third.since(second.number), [("a0", "4"), ("b", "z")]);
        let fourth = third.next(vec![section("a", "w", &["4", "3"])], now);
        // A section that is gone is removed, once, until it comes back.
        assert_eq!(fourth.since(third.number), [("a", "w43"), ("b", "")]);
        assert_eq!(fourth.since(0), [("a", "w43")]);
        let fifth = fourth.next(vec![section("a", "w", &["4", "3"])], now);
        assert_eq!((fifth.since(fourth.number), fifth.since(third.number)), (vec![], vec![("a", "w43"), ("b", "")]));
        let sixth = fifth.next(vec![section("a", "w", &["4", "3"]), section("b", "z", &[])], now);
        assert_eq!((sixth.since(third.number), sixth.gone.len()), (vec![("a", "w43"), ("b", "z")], 0));
    }
}
