//! Answers from an archive, to the questions that a switch or a controller is asked.

use std::sync::Arc;

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;

use super::answers::{document, frequencies};
use super::{Answering, Flows, HeavyQuery, view};
use crate::answers::{Queryable, Task};
use crate::archive::Archive;

/// An archive that is asked about the last seconds.
pub struct ArchivedAnswers {
    archive: Archive,
    seconds: f64,
}

impl ArchivedAnswers {
    pub fn new(archive: Archive, seconds: f64) -> Self {
        Self { archive, seconds }
    }

    /// The document of a task at this path of the API, as a switch would give it.
    ///
    /// # Errors
    /// If the question is none, or a file cannot be read.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let (name, query) = question(path)?;
        let task = match &name[..] {
            "entropy" => Some(Task::Cardinality),
            name => Task::ALL.into_iter().find(|task| task.name() == name),
        };
        let task = task.ok_or_else(|| format!("an archive has no {name}: ask a running switch"))?;
        let document = serde_json::to_value(document(self, task, &query)?).map_err(|error| error.to_string())?;
        serde_json::from_value(document).map_err(|error| error.to_string())
    }

    /// The answers to one question about several flows, each by itself.
    ///
    /// # Errors
    /// If the question is none, or a file cannot be read.
    pub fn frequencies(&self, path: &str, flows: &Flows) -> Result<view::Frequencies, String> {
        frequencies(self, &question(path)?.1, flows)
    }
}

/// The name of the answer at this path of the API, and the query behind it.
fn question(path: &str) -> Result<(String, HeavyQuery), String> {
    let uri: Uri = path.parse().map_err(|error| format!("{path}: {error}"))?;
    let Query(query) = Query::try_from_uri(&uri).map_err(|wrong| wrong.body_text())?;
    Ok((uri.path().trim_start_matches("/v1/").to_owned(), query))
}

impl Answering for ArchivedAnswers {
    fn is_live(&self) -> bool {
        false
    }

    fn history(&self, task: Task, query: &HeavyQuery) -> Result<Arc<dyn Queryable>, String> {
        let programs: Vec<_> = self.archive.configured().collect();
        let chosen = query.choose(programs.iter().map(|(_, program)| *program), task);
        let named = programs.iter().find(|(_, program)| chosen.is_some_and(|chosen| std::ptr::eq(*program, chosen)));
        let none = || {
            let names = programs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and ");
            let unreadable = self.archive.programs().iter().flat_map(|(_, files)| &files.unreadable);
            let unreadable: String = unreadable.map(|error| format!("; {error}")).collect();
            format!("the archive has {names}; none that is asked answers this{unreadable}")
        };
        let (name, _) = named.ok_or_else(none)?;
        self.archive.history(name, self.seconds).map_err(|error| error.to_string())
    }
}
