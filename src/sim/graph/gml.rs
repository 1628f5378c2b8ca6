//! GML (Himsolt, "GML: A portable graph file format", 1997): keys with numbers, strings or lists of
//! further keys.

use super::{Edge, Graph, GraphError, Node, push_edge, push_node, shown};

/// Lists within lists at most.
const DEPTH: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    /// A key or a number.
    Word(&'a str),
    /// What stands between quotation marks.
    Text(&'a str),
}

struct Tokens<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Tokens<'a> {
    fn wrong<T>(&self, found: &str, expected: &'static str) -> Result<T, GraphError> {
        Err(GraphError::Syntax { line: self.line, found: shown(found), expected })
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.rest = rest;
        skipped
    }

    /// Passes over white space and comments, which are lines that begin with a hash.
    fn skip_blank(&mut self) {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if !self.rest.starts_with('#') {
                return;
            }
            let line = self.rest.find('\n').unwrap_or(self.rest.len());
            self.skip(line);
        }
    }

    fn next(&mut self) -> Result<Option<Token<'a>>, GraphError> {
        self.skip_blank();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        Ok(Some(match first {
            '[' | ']' => {
                self.skip(1);
                if first == '[' { Token::Open } else { Token::Close }
            }
            '"' => {
                let Some(end) = self.rest[1..].find('"') else {
                    return self.wrong("a string without end", "a closing quotation mark");
                };
                let text = self.skip(end + 2);
                Token::Text(&text[1..=end])
            }
            _ => {
                let delimits = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"');
                let end = self.rest.find(delimits).unwrap_or(self.rest.len());
                Token::Word(self.skip(end))
            }
        }))
    }

    /// The next key of a list, or none at the list's end.
    fn key(&mut self, nested: bool) -> Result<Option<&'a str>, GraphError> {
        match self.next()? {
            Some(Token::Word(key)) => Ok(Some(key)),
            Some(Token::Close) if nested => Ok(None),
            None if !nested => Ok(None),
            Some(Token::Close) => self.wrong("]", "a key"),
            Some(Token::Open) => self.wrong("[", "a key"),
            Some(Token::Text(text)) => self.wrong(text, "a key"),
            None => self.wrong("the end", "]"),
        }
    }

    fn open(&mut self) -> Result<(), GraphError> {
        match self.next()? {
            Some(Token::Open) => Ok(()),
            Some(Token::Word(found) | Token::Text(found)) => self.wrong(found, "["),
            Some(Token::Close) => self.wrong("]", "["),
            None => self.wrong("the end", "["),
        }
    }

    /// A number or string; a list is passed over, and is none.
    fn value(&mut self) -> Result<Option<&'a str>, GraphError> {
        match self.next()? {
            Some(Token::Word(text) | Token::Text(text)) => Ok(Some(text)),
            Some(Token::Open) => self.skip_list().map(|()| None),
            Some(Token::Close) => self.wrong("]", "a value"),
            None => self.wrong("the end", "a value"),
        }
    }

    /// The rest of a list whose bracket has been read.
    fn skip_list(&mut self) -> Result<(), GraphError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Some(Token::Open) => depth += 1,
                Some(Token::Close) => depth -= 1,
                Some(_) => {}
                None => return self.wrong("the end", "]"),
            }
            if depth > DEPTH {
                return Err(GraphError::TooDeep { line: self.line, what: "lists within lists", max: DEPTH });
            }
        }
        Ok(())
    }

    /// The values of a list's keys, as far as they are asked for; of equal keys the first counts.
    fn fields<const N: usize>(&mut self, keys: [&str; N]) -> Result<[Option<String>; N], GraphError> {
        let mut fields = [const { None }; N];
        self.open()?;
        while let Some(key) = self.key(true)? {
            let value = self.value()?;
            let field = keys.iter().position(|wanted| *wanted == key).map(|i| &mut fields[i]);
            if let (Some(field @ None), Some(value)) = (field, value) {
                *field = Some(value.to_owned());
            }
        }
        Ok(fields)
    }
}

/// Reads the first graph of a GML text. Keys that tell nothing of nodes and edges are passed over.
///
/// # Errors
/// If the text is no GML, an edge's end is not there, or there are too many of either.
pub fn gml(text: &str) -> Result<Graph, GraphError> {
    let mut tokens = Tokens { rest: text.trim_start_matches('\u{feff}'), line: 1 };
    while let Some(key) = tokens.key(false)? {
        if key == "graph" {
            return graph(&mut tokens);
        }
        tokens.value()?;
    }
    Err(GraphError::NoGraph)
}

fn graph(tokens: &mut Tokens) -> Result<Graph, GraphError> {
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    tokens.open()?;
    while let Some(key) = tokens.key(true)? {
        let line = tokens.line;
        let missing = |what, key| GraphError::Missing { line, what, key };
        match key {
            "node" => {
                let [id, label] = tokens.fields(["id", "label"])?;
                let id = id.ok_or_else(|| missing("a node", "id"))?;
                push_node(&mut nodes, Node { line, id, label })?;
            }
            "edge" => {
                let [source, target] = tokens.fields(["source", "target"])?;
                let source = source.ok_or_else(|| missing("an edge", "source"))?;
                let target = target.ok_or_else(|| missing("an edge", "target"))?;
                push_edge(&mut edges, Edge { line, ends: [source, target] })?;
            }
            _ => drop(tokens.value()?),
        }
    }
    Graph::join(nodes, edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_multigraph_goes_by_id() {
        let text = r#"
            Creator "someone" Version 1
            # a comment with ] in it
            graph [
              directed 0 label "two [ towns"
              edge [ source 1 target 7 LinkLabel "10 Gbps" ]
              node [ id 1 label "Springfield" graphics [ x 1.5 w [ a 1 ] ] ]
              node [ id 7 label "Springfield" ]
              node [ id 3 ]
              edge [ target 7 source 1 ]
              edge [ source 3 target 3 ]
            ]"#;
        let graph = gml(text).unwrap();
        assert_eq!(graph.nodes, ["Springfield", "Springfield", "3"]);
        assert_eq!(graph.edges, [[0, 1], [0, 1], [2, 2]]);
    }

    #[test]
    fn errors_have_their_place() {
        let deep = format!("graph [\nx {}", "[ y ".repeat(40));
        let texts = [
            "",
            "Version 1",
            "graph",
            "graph 3",
            "graph [",
            "graph [\n]\n]",
            "graph [ node [ label \"x\" ] ]",
            "graph [ node [ id 1 ]\n node [ id 1 ] ]",
            "graph [ node [ id 1 ]\n\n edge [ source 1 target 2 ] ]",
            "graph [ edge [ target 2 ] ]",
            "graph [ \"node\" ]",
            "graph [ label \"open ]",
            deep.as_str(),
        ];
        let errors = texts.map(|text| match gml(text) {
            Ok(graph) => format!("{} nodes", graph.nodes.len()),
            Err(error) => error.to_string(),
        });
        insta::assert_snapshot!(errors.join("\n"), @r"
        no graph in it
        no graph in it
        line 1: the end where [ belongs
        line 1: 3 where [ belongs
        line 1: the end where ] belongs
        0 nodes
        line 1: a node without id
        line 2: node id 1 for the second time
        line 3: an edge to node 2, which is not there
        line 1: an edge without source
        line 1: node where a key belongs
        line 1: a string without end where a closing quotation mark belongs
        line 2: lists within lists, 32 deep at most
        ");
        let many = format!("graph [ {} ]", (0..5000).map(|i| format!("node [ id {i} ]")).collect::<String>());
        assert_eq!(gml(&many), Err(GraphError::TooMany { what: "nodes", max: 4096 }));
    }
}
