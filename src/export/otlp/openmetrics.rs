//! Reads OpenMetrics text as `/metrics` serves it.

/// A family of metrics.
#[derive(Debug, PartialEq)]
pub struct Family<'a> {
    pub help: &'a str,
    pub kind: Kind,
    pub samples: Vec<Sample<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    /// A gauge, or an info, whose value is always 1.
    Gauge,
    Histogram,
}

/// A line with a value.
#[derive(Debug, PartialEq)]
pub struct Sample<'a> {
    pub name: &'a str,
    pub labels: Vec<(&'a str, String)>,
    pub value: &'a str,
    /// Name and labels, as they stand in the text.
    pub series: &'a str,
}

/// The families of a text. A line that cannot be read is left out.
pub fn families(text: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family> = Vec::new();
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let kind = match kind {
                "counter" => Kind::Counter,
                "histogram" => Kind::Histogram,
                _ => Kind::Gauge,
            };
            families.push(Family { help, kind, samples: Vec::new() });
        } else if let (Some(family), Some(sample)) = (families.last_mut(), sample(line)) {
            family.samples.push(sample);
        }
    }
    families
}

fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, self::labels(labels.strip_suffix('}')?)?),
        None => (series, Vec::new()),
    };
    Some(Sample { name, labels, value, series })
}

/// Labels between braces. Backslash, quote and newline are escaped in values.
fn labels(mut text: &str) -> Option<Vec<(&str, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, character) in rest.char_indices() {
            match (escaped, character) {
                (true, 'n') => value.push('\n'),
                (true, other) => value.push(other),
                (false, '\\') => {}
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, other) => value.push(other),
            }
            escaped = !escaped && character == '\\';
        }
        labels.push((key, value));
        text = &rest[end? + 1..];
        text = text.strip_prefix(',').unwrap_or(text);
    }
    Some(labels)
}
