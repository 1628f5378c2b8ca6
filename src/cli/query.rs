//! `weir query`: asks a running switch, a controller or an archive about certain flows.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::archive::FromArchive;
use super::epochs::{Window, flow_parameter};
use super::output::Tables;
use super::show::Where;
use super::{Failure, help};
use crate::answers::Frequency;
use crate::api::Flows;
use crate::wire::Pattern;

#[derive(Debug, Args)]
#[command(after_help = help::examples(&[
    "weir query frequency --flow '10.0.0.1:80 → 10.0.0.2:* tcp' --last 1m",
    "weir query frequency --flow '10.0.0.1 → *:443' --archive DIR --last 2d",
]))]
pub struct Query {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    archive: FromArchive,
    #[command(flatten)]
    tables: Tables,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How many packets (or bytes, where they are counted) flows have, with bounds
    ///
    /// "At most" is certain. "At least" is certain, or holds with the probability that is printed.
    #[command(after_help = help::examples(&[
        "weir query frequency --flow '10.0.0.1:80 → 10.0.0.2:* tcp' --last 1m",
        "weir query frequency --flow '10.0.0.1 → *:443' --name net --json",
        "weir query frequency --flow '10.0.0.0/24 → *' --program {program} --each",
        "weir query frequency --flows flows.txt --csv",
    ]))]
    Frequency {
        /// The flow, or all flows like this, as "10.0.0.1:80 → 10.0.0.0/24:* tcp" (-> for the arrow, * for
        /// any)
        #[arg(long, value_name = "FLOW", required_unless_present = "flows", conflicts_with = "flows")]
        flow: Option<Pattern>,
        /// Flows from a file, one in a line, each answered by itself; - is stdin, # begins a comment
        #[arg(long, value_name = "FILE", conflicts_with = "each")]
        flows: Option<PathBuf>,
        #[command(flatten)]
        window: Window,
    },
}

/// The flows of a file.
fn read(file: &Path) -> Result<Vec<Pattern>, Failure> {
    let failed = |why: String| Failure::Failed(format!("{}: {why}", file.display()));
    let mut bytes = Vec::new();
    let from: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(file).map_err(|error| failed(error.to_string()))?),
    };
    // Far more than that many flows take.
    const MOST_BYTES: u64 = 1 << 20;
    from.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(failed("more than 1 MiB".into()));
    }
    let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
    let lines =
        (1..).zip(text.lines()).map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()));
    let pattern = |(number, line): (u32, &str)| line.parse().map_err(|error| failed(format!("line {number}: {error}")));
    let flows: Vec<Pattern> = lines.filter(|(_, line)| !line.is_empty()).map(pattern).collect::<Result<_, _>>()?;
    match flows.len() {
        0 => Err(failed("no flows".into())),
        number if number > Flows::MOST => {
            Err(failed(format!("{number} flows, and a question is about {}", Flows::MOST)))
        }
        _ => Ok(flows),
    }
}

impl Query {
    pub fn run(self, json: bool) -> Result<(), Failure> {
        let format = &self.tables.format(json)?;
        match self.what {
            What::Frequency { flow, flows, window } => {
                let answerer = window.answerer(&self.archive, &self.at)?;
                match (flow, flows) {
                    (_, Some(file)) => {
                        let flows = Flows { flows: read(&file)?.iter().map(Pattern::to_string).collect() };
                        window.frequencies(&answerer, format, &flows)
                    }
                    (Some(flow), None) => {
                        let path = format!("/v1/frequency?{}", flow_parameter(&flow));
                        window.show(&answerer, format, &path, Frequency::page)
                    }
                    (None, None) => Err(Failure::Usage("--flow FLOW or --flows FILE: nothing is asked for".into())),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_read_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("flows.txt");
        let read = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            let why = |failure| match failure {
                Failure::Failed(why) | Failure::Usage(why) | Failure::Missed(why) => {
                    why.rsplit_once("flows.txt: ").unwrap().1.to_owned()
                }
            };
            read(&file).map(|flows| flows.len()).map_err(why)
        };
        assert_eq!(read("# ours\n\n10.0.0.1 → * # all\n* -> 10.0.0.0/24:80 tcp\n".as_bytes()), Ok(2));
        assert_eq!(read(b"").unwrap_err(), "no flows");
        let wrong = read(b"10.0.0.1 -> *\n10.0.0.1\n").unwrap_err();
        assert!(wrong.starts_with("line 2: "), "{wrong}");
        assert!(read(&[0xff, 0xfe]).is_err());
        assert_eq!(read("* -> *\n".repeat(1001).as_bytes()).unwrap_err(), "1001 flows, and a question is about 1000");
        assert_eq!(read(&b"# x\n* -> *\n".repeat(200_000)).unwrap_err(), "more than 1 MiB");
        assert!(super::read(&directory.path().join("none")).is_err());
    }
}
