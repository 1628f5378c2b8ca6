//! Tables that fit a terminal: how wide columns are, which of them stand beside each other, and where
//! a cell's text goes on in the next line.

use unicode_width::UnicodeWidthStr;

/// Between two columns.
pub const GAP: usize = 2;

/// A text that is longer is wrapped to no less than this.
const TEXT: usize = 24;

/// Terminal columns that key columns leave to the others.
const OTHERS: usize = 28;

pub struct Column<'a> {
    pub heading: &'a str,
    pub is_right: bool,
    pub cells: Vec<&'a str>,
}

/// A column of a part, and its width there.
pub type Placed = (usize, usize);

impl Column<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        [self.heading].into_iter().chain(self.cells.iter().copied())
    }

    /// The width that takes every text in one line.
    fn natural(&self) -> usize {
        self.texts().map(UnicodeWidthStr::width).max().unwrap_or_default()
    }

    /// The least width: a number is in one line, and a word of a text too.
    fn least(&self) -> usize {
        let longest_word = |text: &str| words(text).map(UnicodeWidthStr::width).max().unwrap_or_default();
        let cell = |text: &&str| {
            if self.is_right { text.width() } else { longest_word(text).max(text.width().min(TEXT)) }
        };
        let cells = self.cells.iter().map(cell).max().unwrap_or_default();
        cells.max(longest_word(self.heading))
    }
}

/// All columns beside each other.
pub fn whole(columns: &[Column<'_>]) -> Vec<Placed> {
    columns.iter().map(Column::natural).enumerate().collect()
}

/// Parts of a table that are no wider than this. The first columns, `keys` of them, are in each part as
/// far as they leave room for others.
pub fn parts(columns: &[Column<'_>], keys: usize, width: usize) -> Vec<Vec<Placed>> {
    let whole = whole(columns);
    if width_of(&whole) <= width {
        return vec![whole];
    }
    let least: Vec<_> = columns.iter().map(Column::least).enumerate().collect();
    let room = width.saturating_sub(OTHERS).max(width / 2);
    let keys = (0..=keys.min(columns.len().saturating_sub(1)))
        .rev()
        .find(|keys| *keys < 2 || width_of(&least[..*keys]) <= room)
        .unwrap_or_default();
    // A word that is still too long goes on in the next line; a number does not.
    let narrowed = |&(at, wide): &Placed, room: usize| (at, if columns[at].is_right { wide } else { wide.min(room) });
    let keys: Vec<_> = least[..keys].iter().map(|placed| narrowed(placed, room)).collect();
    let rest = width.saturating_sub(width_of(&keys) + GAP).max(1);
    let mut parts: Vec<Vec<Placed>> = Vec::new();
    for placed in &least[keys.len()..] {
        let placed = narrowed(placed, rest);
        match parts.last_mut() {
            Some(part) if width_of(part) + GAP + placed.1 <= width => part.push(placed),
            _ => parts.push([&keys[..], &[placed]].concat()),
        }
    }
    parts.iter_mut().for_each(|part| widen(part, columns, width));
    parts
}

/// Of columns and what is between them.
pub fn width_of(part: &[Placed]) -> usize {
    part.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Gives the columns of a part the room that is left, those first that need the least.
fn widen(part: &mut [Placed], columns: &[Column<'_>], width: usize) {
    let mut spare = width.saturating_sub(width_of(part));
    let mut needs: Vec<_> =
        part.iter_mut().map(|(at, wide)| (columns[*at].natural().saturating_sub(*wide), wide)).collect();
    needs.sort_by_key(|(need, _)| *need);
    let all = needs.len();
    for (i, (need, wide)) in needs.into_iter().enumerate() {
        let given = need.min(spare / (all - i));
        *wide += given;
        spare -= given;
    }
}

/// The words of a text. The groups of a number's digits are one word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.match_indices(' ').map(|(at, _)| at).find(|&at| {
            let (before, after) = (&rest[..at], &rest[at + 1..]);
            !(digit(before.chars().next_back()) && digit(after.chars().next()))
        });
        let (word, others) = end.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
        let is_over = rest.is_empty();
        rest = others;
        (!is_over).then_some(word)
    })
}

/// The lines of a text in a column of this width, each as far on the right as the text begins.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.width() <= width {
        return vec![text.to_owned()];
    }
    let words = text.trim_start();
    let blanks = &text[..text.len() - words.len()];
    let lines = broken(words, width.saturating_sub(blanks.width()).max(1));
    lines.into_iter().map(|line| format!("{blanks}{line}")).collect()
}

fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line += word,
            Some(line) if line.width() + 1 + word.width() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
        // A word that is longer than a line goes on in the next.
        while let Some(line) = lines.last_mut().filter(|line| line.width() > width) {
            let end =
                line.char_indices().map(|(at, _)| at).skip(1).take_while(|&at| line[..at].width() <= width).last();
            let Some(end) = end else { break };
            let rest = line.split_off(end);
            lines.push(rest);
        }
    }
    lines
}

/// The lines of a row, or of the headings, which stand as low as they can.
pub fn line<'a>(
    part: &[Placed],
    text: impl Fn(usize) -> &'a str,
    columns: &[Column<'_>],
    is_heading: bool,
) -> Vec<String> {
    let cells: Vec<_> = part.iter().map(|&(at, width)| wrapped(text(at), width)).collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    let line = |number: usize| {
        let mut line = String::new();
        for (cell, &(at, width)) in cells.iter().zip(part) {
            let above = if is_heading { height - cell.len() } else { 0 };
            let text = number.checked_sub(above).and_then(|number| cell.get(number)).map_or("", String::as_str);
            let blanks = " ".repeat(width.saturating_sub(text.width()));
            let gap = " ".repeat(GAP);
            line += &if columns[at].is_right { blanks + text + &gap } else { text.to_owned() + &blanks + &gap };
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests;
