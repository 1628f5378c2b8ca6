//! For whom text is written: a person at a terminal, or a program that reads a pipe or a file.

use std::cell::Cell;
use std::io::{IsTerminal, stdout};

/// The form of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Numbers are plain digits, and a row of a table is one line: `awk` and `cut` read it.
    #[default]
    Plain,
    /// Thousands are grouped, and tables fit the columns.
    Terminal { columns: usize },
}

/// The columns of a terminal that does not say how many it has.
const COLUMNS: usize = 80;

thread_local! {
    /// The style of what this thread writes to stdout.
    static STYLE: Cell<Style> = const { Cell::new(Style::Plain) };
}

impl Style {
    /// The style that stdout asks for. A terminal's columns are those of the variable COLUMNS, where
    /// that is set.
    pub fn of_stdout() -> Self {
        if !stdout().is_terminal() {
            return Self::Plain;
        }
        let given = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
        let own = || rustix::termios::tcgetwinsize(stdout()).ok().map(|size| size.ws_col.into());
        let columns = given.filter(|columns| *columns > 0).or_else(own).filter(|columns| *columns > 0);
        Self::Terminal { columns: columns.unwrap_or(COLUMNS) }
    }

    pub fn current() -> Self {
        STYLE.get()
    }

    /// Sets the style of what this thread writes from now on.
    pub fn set(self) {
        STYLE.set(self);
    }
}

/// 1234567 as "1 234 567" on a terminal, else its digits alone.
pub fn grouped(n: impl Into<u128>) -> String {
    let digits = n.into().to_string();
    if Style::current() == Style::Plain {
        return digits;
    }
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_groups_on_a_terminal_alone() {
        let written = |style: Style| {
            style.set();
            [0u64, 999, 1_234_567].map(grouped)
        };
        assert_eq!(written(Style::Terminal { columns: 80 }), ["0", "999", "1 234 567"]);
        assert_eq!(written(Style::Plain), ["0", "999", "1234567"]);
    }
}
