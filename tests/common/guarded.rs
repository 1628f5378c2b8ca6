//! How a copy of the tree that `make breaks` compiles asks which break is wanted.

/// A text that can be broken, and beside it what is to be in its place if the break with that number
/// is asked for.
pub fn guarded<'a>(find: &str, breaks: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    // An expression stands in parentheses, as before the `else` of a `let`.
    let (open, close) = if find.ends_with(';') { ("{ ", " }") } else { ("({ ", " })") };
    let asks = breaks.into_iter().map(|(number, replace)| format!("if crate::broken({number}) {{ {replace} }} else "));
    format!("{open}{}{{ {find} }}{close}", asks.collect::<String>())
}
