//! A chart of horizontal bars.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const OURS: RGBColor = RGBColor(0, 114, 178);
const PEERS: RGBColor = RGBColor(150, 160, 170);
const WIDTH: i32 = 960;
/// Where bars begin, after their names, and where the longest one ends, before its number.
const BARS: std::ops::Range<i32> = 290..870;
const BAR: i32 = 20;
const GAP: i32 = 6;
const HEAD: i32 = 52;
const GROUP: i32 = 30;
const FOOT: i32 = 40;

/// Bars with their names and lengths.
type Group = (String, Vec<(String, f64)>);

/// Draws a group of bars under each heading. Groups have scales of their own, because their devices
/// differ by more than a bar can show. The first bar of a group is weir's.
pub fn draw(title: &str, groups: &[Group], note: &str, path: &Path) -> Result<()> {
    let failed = |e| anyhow!("{e:?}");
    let heights = groups.iter().map(|(_, bars)| GROUP + bars.len() as i32 * (BAR + GAP) + GAP);
    let height = HEAD + heights.sum::<i32>() + FOOT;
    let root = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    // A background of its own makes it legible on dark pages too.
    root.fill(&WHITE).map_err(failed)?;
    let text = |size: i32, h| (FONT, size).into_font().color(&INK).pos(Pos::new(h, VPos::Center));
    let write =
        |words: String, at: (i32, i32), size, h| root.draw(&Text::new(words, at, text(size, h))).map_err(failed);
    write(title.to_owned(), (24, 28), 19, HPos::Left)?;
    let mut y = HEAD;
    for (heading, bars) in groups {
        write(heading.clone(), (24, y + GROUP / 2), 15, HPos::Left)?;
        y += GROUP;
        let longest = bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
        for (number, (name, length)) in bars.iter().enumerate() {
            let end = BARS.start + (length / longest * f64::from(BARS.end - BARS.start)).round() as i32;
            let fill = if number == 0 { OURS } else { PEERS };
            root.draw(&Rectangle::new([(BARS.start, y), (end, y + BAR)], fill.filled())).map_err(failed)?;
            write(name.clone(), (BARS.start - 10, y + BAR / 2), 14, HPos::Right)?;
            write(format!("{length:.1}"), (end + 8, y + BAR / 2), 14, HPos::Left)?;
            y += BAR + GAP;
        }
        y += GAP;
    }
    write(note.to_owned(), (24, height - FOOT / 2), 12, HPos::Left)?;
    root.present().map_err(failed)
}
