//! A chart of horizontal bars.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::figures::draw::wrapped;

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const OURS: RGBColor = RGBColor(0, 114, 178);
const PEERS: RGBColor = RGBColor(150, 160, 170);
const WIDTH: i32 = 960;
/// Where bars begin, after their names, and where the longest one ends, before its number.
const BARS: std::ops::Range<i32> = 330..870;
const BAR: i32 = 20;
const GAP: i32 = 6;
const HEAD: i32 = 52;
const GROUP: i32 = 30;
/// A line of the small print.
const LINE: i32 = 17;
const CHARACTERS: usize = 150;
const FOOT: i32 = 14;

/// A bar with its name and length, and the range over rounds.
pub struct Bar {
    pub name: String,
    pub length: f64,
    pub range: (f64, f64),
    pub is_ours: bool,
}

/// The longest bar of a group is at least this part of the longest of all; with shorter ones the
/// group gets a scale of its own.
const READABLE: f64 = 0.1;

/// The length that takes the whole width, for each group, and whether it is for that group alone.
fn scales(groups: &[(String, Vec<Bar>)]) -> Vec<(f64, bool)> {
    let longest = |bars: &[Bar]| bars.iter().map(|bar| bar.range.1.max(bar.length)).fold(f64::MIN_POSITIVE, f64::max);
    let each: Vec<f64> = groups.iter().map(|(_, bars)| longest(bars)).collect();
    let all = each.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    each.into_iter().map(|own| if own < all * READABLE { (own, true) } else { (all, false) }).collect()
}

/// Draws a group of bars under each heading, on one scale as far as they can be read on it. The
/// heading says where a group has another.
pub fn draw(title: &str, groups: &[(String, Vec<Bar>)], note: &str, path: &Path) -> Result<()> {
    let failed = |e| anyhow!("{e:?}");
    let heights = groups.iter().map(|(_, bars)| GROUP + bars.len() as i32 * (BAR + GAP) + GAP);
    let note = wrapped(note, CHARACTERS);
    let height = HEAD + heights.sum::<i32>() + note.len() as i32 * LINE + FOOT;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    // A background of its own makes it legible on dark pages too.
    root.fill(&WHITE).map_err(failed)?;
    let text = |size: i32, h| (FONT, size).into_font().color(&INK).pos(Pos::new(h, VPos::Center));
    let write =
        |words: String, at: (i32, i32), size, h| root.draw(&Text::new(words, at, text(size, h))).map_err(failed);
    write(title.to_owned(), (24, 28), 19, HPos::Left)?;
    let mut y = HEAD;
    for ((heading, bars), (longest, is_own)) in groups.iter().zip(scales(groups)) {
        let words = if is_own { format!("{heading}, on a scale of its own") } else { heading.clone() };
        write(words, (24, y + GROUP / 2), 15, HPos::Left)?;
        y += GROUP;
        let at = |length: f64| BARS.start + (length / longest * f64::from(BARS.end - BARS.start)).round() as i32;
        for bar in bars {
            let (end, middle) = (at(bar.length), y + BAR / 2);
            let fill = if bar.is_ours { OURS } else { PEERS };
            root.draw(&Rectangle::new([(BARS.start, y), (end, y + BAR)], fill.filled())).map_err(failed)?;
            let (least, most) = (at(bar.range.0), at(bar.range.1));
            root.draw(&PathElement::new([(least, middle), (most, middle)], INK)).map_err(failed)?;
            for x in [least, most] {
                root.draw(&PathElement::new([(x, middle - 4), (x, middle + 4)], INK)).map_err(failed)?;
            }
            write(bar.name.clone(), (BARS.start - 10, middle), 14, HPos::Right)?;
            write(number(bar.length), (end.max(most) + 8, middle), 14, HPos::Left)?;
            y += BAR + GAP;
        }
        y += GAP;
    }
    for line in note {
        write(line, (24, y + LINE / 2), 12, HPos::Left)?;
        y += LINE;
    }
    root.present().map_err(failed)
}

fn number(length: f64) -> String {
    if length < 1.0 { format!("{length:.3}") } else { format!("{length:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, lengths: &[f64]) -> (String, Vec<Bar>) {
        let bar = |&length: &f64| Bar { name: "bar".into(), length, range: (length, length), is_ours: true };
        (name.into(), lengths.iter().map(bar).collect())
    }

    #[test]
    fn groups_share_a_scale_as_far_as_it_can_be_read() {
        let groups = [group("fast", &[40.0, 100.0]), group("slow", &[12.0, 3.0]), group("other", &[9.0, 1.0])];
        assert_eq!(scales(&groups), [(100.0, false), (100.0, false), (9.0, true)]);
        assert_eq!(scales(&[group("alone", &[0.2])]), [(0.2, false)]);
    }

    /// Bars on one scale can be compared by their lengths; a group on another scale says so.
    #[test]
    fn a_scale_of_its_own_is_named_in_the_picture() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bars.svg");
        let groups = [group("fast", &[100.0]), group("half", &[50.0]), group("tiny", &[2.0])];
        draw("title", &groups, "", &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(svg.contains("tiny, on a scale of its own") && svg.matches("scale of its own").count() == 1, "{svg}");
        let fill = "fill=\"#0072B2\"";
        let width = |line: &str| line.split_once(" width=\"")?.1.split('"').next()?.parse::<i32>().ok();
        let widths: Vec<_> = svg.lines().filter(|line| line.contains(fill)).filter_map(width).collect();
        assert_eq!(widths, [540, 270, 540], "{svg}");
    }

    #[test]
    fn small_rates_keep_their_digits() {
        assert_eq!([0.4123, 91.04].map(number), ["0.412", "91.0"]);
    }
}
