//! Where the mutants of a file stand in its text, and the text that selects between them at run time.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A mutant as `cargo mutants --list --json` describes it.
#[derive(serde::Deserialize)]
pub struct Listed {
    pub name: String,
    pub file: String,
    span: Span,
    replacement: String,
    genre: String,
}

#[derive(serde::Deserialize)]
struct Span {
    start: Position,
    end: Position,
}

/// Both count from 1; a column is a character.
#[derive(serde::Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

/// What stands at a place instead of the sound text if a mutant is selected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// Another expression, or other statements.
    Instead(String),
    /// A return with this value at the start of a function's body.
    Return(String),
    /// An arm of a `match` that matches nothing.
    NoArm,
}

/// What a file has for mutants: ranges of its text by the start of what cargo-mutants names. Constant
/// expressions are left out: they cannot ask at run time.
#[derive(Default)]
pub struct Places {
    /// By the operator: the expression and its operands.
    binary: HashMap<usize, [Range<usize>; 3]>,
    unary: HashMap<usize, [Range<usize>; 2]>,
    /// By the arm: where its pattern ends.
    arms: HashMap<usize, usize>,
    guards: HashSet<usize>,
    /// By the field: the whole expression.
    fields: HashMap<usize, Range<usize>>,
    bodies: HashSet<usize>,
}

impl Places {
    pub fn of(text: &str) -> Result<Self> {
        let mut places = Self::default();
        places.visit_file(&syn::parse_file(text)?);
        Ok(places)
    }

    /// The place of a mutant in the file's text, and its form there. None for what a copy that
    /// selects at run time cannot express.
    pub fn place(&self, text: &str, mutant: &Listed) -> Option<(Range<usize>, Form)> {
        let span = mutant.span.start.offset(text)?..mutant.span.end.offset(text)?;
        let of = |range: &Range<usize>| &text[range.clone()];
        let new = mutant.replacement.as_str();
        Some(match mutant.genre.as_str() {
            "FnValue" if self.bodies.contains(&span.start) => (span.start..span.start, Form::Return(new.to_owned())),
            "BinaryOperator" => {
                let [whole, left, right] = self.binary.get(&span.start)?;
                (whole.clone(), Form::Instead(format!("({}) {new} ({})", of(left), of(right))))
            }
            "UnaryOperator" => {
                let [whole, operand] = self.unary.get(&span.start)?;
                (whole.clone(), Form::Instead(of(operand).to_owned()))
            }
            "MatchArm" => self.arms.get(&span.start).map(|&end| (end..end, Form::NoArm))?,
            "MatchArmGuard" if self.guards.contains(&span.start) => (span, Form::Instead(new.to_owned())),
            "StructField" => {
                let whole = self.fields.get(&span.start)?;
                let rest = [of(&(whole.start..span.start)), of(&(span.end..whole.end))].concat();
                (whole.clone(), Form::Instead(rest))
            }
            _ => return None,
        })
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // A return before the body would fix a type that the body does not have.
        let is_opaque = matches!(&signature.output, syn::ReturnType::Type(_, of) if has_opaque(of));
        if let Some(first) = block.stmts.first().filter(|_| !is_opaque) {
            self.bodies.insert(first.span().byte_range().start);
        }
    }
}

impl Position {
    fn offset(&self, text: &str) -> Option<usize> {
        let line = text.split_inclusive('\n').nth(self.line - 1)?;
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let within = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(self.column - 1)?;
        Some(start + within)
    }
}

fn has_opaque(of: &syn::Type) -> bool {
    struct Seeks(bool);
    impl Visit<'_> for Seeks {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut seeks = Seeks(false);
    seeks.visit_type(of);
    seeks.0
}

/// Whether it is a condition with `let`, which is no expression.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(of) => has_let(&of.left) || has_let(&of.right),
        _ => false,
    }
}

impl Visit<'_> for Places {
    fn visit_item_fn(&mut self, of: &syn::ItemFn) {
        if of.sig.constness.is_none() {
            self.function(&of.sig, &of.block);
            visit::visit_item_fn(self, of);
        }
    }

    fn visit_impl_item_fn(&mut self, of: &syn::ImplItemFn) {
        if of.sig.constness.is_none() {
            self.function(&of.sig, &of.block);
            visit::visit_impl_item_fn(self, of);
        }
    }

    fn visit_trait_item_fn(&mut self, of: &syn::TraitItemFn) {
        if let Some(block) = &of.default {
            self.function(&of.sig, block);
        }
        visit::visit_trait_item_fn(self, of);
    }

    fn visit_expr_binary(&mut self, of: &syn::ExprBinary) {
        if !has_let(&of.left) && !has_let(&of.right) {
            let ranges = [of.span(), of.left.span(), of.right.span()].map(|span| span.byte_range());
            self.binary.insert(of.op.span().byte_range().start, ranges);
        }
        visit::visit_expr_binary(self, of);
    }

    fn visit_expr_unary(&mut self, of: &syn::ExprUnary) {
        let ranges = [of.span(), of.expr.span()].map(|span| span.byte_range());
        self.unary.insert(of.op.span().byte_range().start, ranges);
        visit::visit_expr_unary(self, of);
    }

    fn visit_expr_match(&mut self, of: &syn::ExprMatch) {
        // An arm with a condition does not count when the compiler looks for values without an arm.
        let has_rest = of.arms.iter().any(|arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none());
        for arm in &of.arms {
            match &arm.guard {
                Some((_, guard)) => {
                    self.guards.insert(guard.span().byte_range().start);
                }
                None if has_rest => {
                    self.arms.insert(arm.span().byte_range().start, arm.pat.span().byte_range().end);
                }
                None => {}
            }
        }
        visit::visit_expr_match(self, of);
    }

    fn visit_expr_struct(&mut self, of: &syn::ExprStruct) {
        let whole = of.span().byte_range();
        self.fields.extend(of.fields.iter().map(|field| (field.span().byte_range().start, whole.clone())));
        visit::visit_expr_struct(self, of);
    }

    fn visit_expr_repeat(&mut self, of: &syn::ExprRepeat) {
        self.visit_expr(&of.expr);
    }

    fn visit_pat(&mut self, _: &syn::Pat) {}
    fn visit_type(&mut self, _: &syn::Type) {}
    fn visit_generic_argument(&mut self, _: &syn::GenericArgument) {}
    fn visit_item_const(&mut self, _: &syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &syn::TraitItemConst) {}
    fn visit_variant(&mut self, _: &syn::Variant) {}
    fn visit_expr_const(&mut self, _: &syn::ExprConst) {}
}

/// A place with all that may stand there, each with its number. The numbers follow one another.
#[derive(Clone)]
pub struct Site {
    pub range: Range<usize>,
    pub first: usize,
    pub forms: Vec<Option<Form>>,
}

impl Site {
    /// An empty range inserts, and so stands outside what begins at the same byte.
    fn order(&self) -> (usize, bool, std::cmp::Reverse<usize>) {
        (self.range.start, !self.range.is_empty(), std::cmp::Reverse(self.range.end))
    }

    /// Whether both can stand in one text: beside each other, or one within the other.
    pub fn nests(&self, other: &Range<usize>) -> bool {
        let holds = |a: &Range<usize>, b: &Range<usize>| a.start <= b.start && b.end <= a.end;
        let (a, b) = (&self.range, other);
        a.end <= b.start || b.end <= a.start || holds(a, b) || holds(b, a)
    }
}

/// A part of a guarded text, and the numbers of the mutants that it is there for. It is a replacement
/// if the number is its own.
pub struct Mark {
    pub range: Range<usize>,
    pub numbers: Range<usize>,
    pub is_replacement: bool,
}

/// A text that asks at each site which of its mutants is selected.
pub fn guarded(text: &str, sites: &mut [Site]) -> (String, Vec<Mark>) {
    sites.sort_by_key(Site::order);
    let mut out = Out { source: text, text: String::new(), marks: Vec::new() };
    let rest = out.copy(0..text.len(), sites);
    debug_assert!(rest.is_empty());
    (out.text, out.marks)
}

struct Out<'a> {
    source: &'a str,
    text: String,
    marks: Vec<Mark>,
}

impl Out<'_> {
    /// Copies a range with the sites in it, and gives back those behind it.
    fn copy<'s>(&mut self, range: Range<usize>, mut sites: &'s [Site]) -> &'s [Site] {
        let mut at = range.start;
        while let Some((site, rest)) = sites.split_first().filter(|(site, _)| site.range.end <= range.end) {
            self.text += &self.source[at..site.range.start];
            at = site.range.end;
            sites = self.site(site, rest);
        }
        self.text += &self.source[at..range.end];
        sites
    }

    fn site<'s>(&mut self, site: &Site, within: &'s [Site]) -> &'s [Site] {
        let (start, count) = (self.text.len(), site.forms.len());
        let numbers = site.first..site.first + count;
        let asks = format!("::weir::mutant({}, {count})", site.first);
        let forms = site.forms.iter().enumerate().filter_map(|(at, form)| Some((at, form.as_ref()?)));
        let whole = &self.source[site.range.clone()];
        let is_statement = whole.ends_with(';');
        let mut rest = within;
        if forms.clone().any(|(_, form)| *form == Form::NoArm) {
            self.text += &format!(" if {asks} != 0");
        } else if forms.clone().next().is_none() {
            rest = self.copy(site.range.clone(), within);
        } else {
            let inserts = site.range.is_empty();
            self.text += if inserts || is_statement { "{ " } else { "({ " };
            self.text += &format!("match {asks} {{ ");
            for (at, form) in forms {
                let new = match form {
                    Form::Instead(new) => new.clone(),
                    Form::Return(value) => format!("return {value};"),
                    Form::NoArm => continue,
                };
                self.text += &format!("{at} => {{ ");
                let from = self.text.len();
                self.text += &new;
                let (range, number) = (from..self.text.len(), site.first + at);
                self.marks.push(Mark { range, numbers: number..number + 1, is_replacement: true });
                self.text += " } ";
            }
            // `{ match a { … } + b }` would end behind the `match`.
            let (open, close) = if syn::parse_str::<syn::Expr>(whole).is_ok() { ("{ (", ") }") } else { ("{ ", " }") };
            self.text += &format!("_ => {open}");
            rest = if inserts { within } else { self.copy(site.range.clone(), within) };
            self.text += close;
            self.text += if inserts || is_statement { " } }" } else { " } })" };
        }
        self.marks.push(Mark { range: start..self.text.len(), numbers, is_replacement: false });
        rest
    }
}

/// The numbers of the mutants that an error of the compiler at these bytes speaks of.
pub fn blamed(marks: &[Mark], primary: &[Range<usize>], secondary: &[Range<usize>]) -> Option<Range<usize>> {
    let at = |spans: &[Range<usize>], replacements: bool| {
        let holds = |mark: &&Mark| spans.iter().any(|span| mark.range.contains(&span.start));
        let marks = marks.iter().filter(move |mark| mark.is_replacement == replacements);
        marks.filter(holds).min_by_key(|mark| mark.range.len()).map(|mark| mark.numbers.clone())
    };
    at(primary, true).or_else(|| at(secondary, true)).or_else(|| at(primary, false)).or_else(|| at(secondary, false))
}

/// A place of a text that stands in it once.
pub fn only(text: &str, find: &str) -> Result<Range<usize>> {
    let mut places = text.match_indices(find);
    let (at, _) = places.next().filter(|_| places.next().is_none()).context("it does not stand there once")?;
    Ok(at..at + find.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mutant of the text that stands there once, and its guarded text.
    fn with(text: &str, at: &str, genre: &str, replacement: &str) -> Option<String> {
        let start = text.find(at).unwrap();
        let position = |at: usize| Position { line: 1, column: text[..at].chars().count() + 1 };
        let span = Span { start: position(start), end: position(start + at.len()) };
        let (name, file) = Default::default();
        let listed = Listed { name, file, span, replacement: replacement.into(), genre: genre.into() };
        let (range, form) = Places::of(text).unwrap().place(text, &listed)?;
        let (text, marks) = guarded(text, &mut [Site { range, first: 7, forms: vec![Some(form)] }]);
        syn::parse_file(&text).expect(&text);
        assert!(marks.iter().all(|mark| mark.numbers == (7..8)));
        Some(text)
    }

    #[test]
    fn a_mutant_stands_beside_what_it_changes() {
        let asked = "match ::weir::mutant(7, 1) { 0 => {";
        for (text, at, genre, replacement, expected) in [
            (
                "ä + b < c",
                "<",
                "BinaryOperator",
                ">",
                format!("({{ {asked} (ä + b) > (c) }} _ => {{ (ä + b < c) }} }} }})"),
            ),
            ("a += b;", "+=", "BinaryOperator", "-=", format!("({{ {asked} (a) -= (b) }} _ => {{ (a += b) }} }} }});")),
            ("!a", "!", "UnaryOperator", "", format!("({{ {asked} a }} _ => {{ (!a) }} }} }})")),
            ("a(b)", "a(b)", "FnValue", "1", format!("{{ {asked} return 1; }} _ => {{  }} }} }}a(b)")),
            (
                "match a { 1 => b, _ => c }",
                "1 => b",
                "MatchArm",
                "",
                "match a { 1 if ::weir::mutant(7, 1) != 0 => b, _ => c }".into(),
            ),
            (
                "A { b: 1, ..C }",
                "b: 1,",
                "StructField",
                "",
                format!("({{ {asked} A {{  ..C }} }} _ => {{ (A {{ b: 1, ..C }}) }} }} }})"),
            ),
        ] {
            let within = |body: &str| format!("fn f() {{ {body} }}");
            assert_eq!(with(&within(text), at, genre, replacement), Some(within(&expected)));
        }
        let guard = with("fn f() { match a { b if c(b) => 1, _ => 2 } }", "c(b)", "MatchArmGuard", "true").unwrap();
        assert!(guard.contains(&format!("b if ({{ {asked} true }} _ => {{ (c(b)) }} }} }}) => 1")), "{guard}");
    }

    #[test]
    fn what_cannot_ask_at_run_time_has_no_place() {
        for (text, at, genre) in [
            ("const A: u8 = 1 + 2;", "+", "BinaryOperator"),
            ("const fn f() -> u8 { a + b }", "+", "BinaryOperator"),
            ("fn f() -> [u8; 1 + 2] { [0; 3] }", "+", "BinaryOperator"),
            ("fn f() { if let A(b) = c && d { e(); } }", "&&", "BinaryOperator"),
            ("fn f() -> impl Iterator<Item = u8> { a() }", "a()", "FnValue"),
        ] {
            assert_eq!(with(text, at, genre, "-"), None, "{text}");
        }
    }

    #[test]
    fn sites_stand_within_each_other() {
        let text = "a + b * c";
        let form = |new: &str| vec![Some(Form::Instead(new.into()))];
        let outer = Site { range: 0..9, first: 0, forms: form("x") };
        let inner = Site { range: 4..9, first: 1, forms: form("y") };
        assert!(outer.nests(&inner.range) && inner.nests(&outer.range) && !inner.nests(&(2..6)));
        let (text, marks) = guarded(text, &mut [inner, outer]);
        let expected = "({ match ::weir::mutant(0, 1) { 0 => { x } _ => { (a + \
                        ({ match ::weir::mutant(1, 1) { 0 => { y } _ => { (b * c) } } })) } } })";
        assert_eq!(text, expected);
        let at = |part: &str| std::iter::once(text.find(part).unwrap()..text.len()).collect::<Vec<_>>();
        assert_eq!(blamed(&marks, &at("y"), &[]), Some(1..2));
        assert_eq!(blamed(&marks, &at("b *"), &[]), Some(1..2), "the smallest around it");
        assert_eq!(blamed(&marks, &at("a +"), &at("x")), Some(0..1));
        assert_eq!(blamed(&marks, &[], &[]), None);
        assert!(only(&text, "match").is_err() && only(&text, "b * c").is_ok());
    }
}
