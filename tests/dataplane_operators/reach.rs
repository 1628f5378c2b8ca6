//! The functions of programs that a packet reaches, and what they compute that no switch does.
//!
//! A packet begins in the stateful ALUs and in `ingress` and `egress`. From there calls are followed
//! by name, within the program's directory and what programs share. What type a value has is not
//! known, so a call of a method may be one of each type that the file names, or that stands in a
//! field of one that it names, and so on: more is held than runs.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ImplItem, Item, Lit, TraitItem};

/// Functions with which a packet begins, by trait.
const BEGINS: [(&str, &[&str]); 4] = [
    ("Salu", &["enabled", "slot", "slots", "rmw", "rmw_of_pairs", "commit", "pass_on", "ended"]),
    ("GroupSalu", &["enabled", "slot", "rmw"]),
    ("Compute", &["compute"]),
    ("Dataplane", &["ingress", "egress"]),
];

/// Words that stand for what a switch does not compute.
const WORDS: [&str; 13] = [
    "f32",
    "f64",
    "sqrt",
    "isqrt",
    "powi",
    "powf",
    "pow",
    "wrapping_mul",
    "saturating_mul",
    "checked_mul",
    "checked_div",
    "div_ceil",
    "rem_euclid",
];

/// A file: its path, whose first part is the program's directory, or its name alone where programs
/// share it; and its text.
pub type Source = (String, String);

/// What a function calls.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    /// With so many arguments, the value before it among them.
    Method(String, usize),
    /// The type or module before it, and the function.
    Path(Option<String>, String),
}

#[derive(Debug, Default)]
struct Function {
    file: String,
    /// The type that it is of.
    owner: Option<String>,
    of_trait: Option<String>,
    name: String,
    arguments: usize,
    calls: BTreeSet<Call>,
    /// The types that its file can reach.
    knows: Rc<BTreeSet<String>>,
    /// What no switch does.
    beyond: Vec<String>,
}

impl Function {
    fn begins(&self) -> bool {
        let of_trait = self.of_trait.as_deref();
        BEGINS.iter().any(|(name, functions)| of_trait == Some(name) && functions.contains(&self.name.as_str()))
    }

    fn full_name(&self) -> String {
        let owner = self.owner.as_ref().map_or_else(String::new, |owner| format!("{owner}::"));
        format!("{}: {owner}{}", self.file, self.name)
    }

    /// Of another program.
    fn is_apart_from(&self, other: &Self) -> bool {
        let program = |file: &str| file.split_once('/').map(|(program, _)| program.to_owned());
        let (mine, theirs) = (program(&self.file), program(&other.file));
        mine.is_some() && theirs.is_some() && mine != theirs
    }

    fn is_called(&self, call: &Call, by: &Self) -> bool {
        let module = || self.file.trim_end_matches(".rs").trim_end_matches("/mod").rsplit('/').next();
        match call {
            Call::Method(name, arguments) => {
                (&self.name, self.arguments) == (name, *arguments)
                    && self.owner.as_ref().is_some_and(|owner| by.knows.contains(owner))
            }
            Call::Path(None, name) => {
                let is_near = self.file == by.file || by.knows.contains(name);
                self.owner.is_none() && self.name == *name && is_near
            }
            Call::Path(Some(of), name) if of == "Self" => self.owner == by.owner && self.name == *name,
            Call::Path(Some(of), name) => {
                let is_its = match &self.owner {
                    Some(owner) => owner == of || self.of_trait.as_ref() == Some(of),
                    None => module() == Some(of),
                };
                is_its && self.name == *name
            }
        }
    }
}

/// Whether it is a constant power of two: to multiply by one is to shift.
fn power_of_two(expression: &Expr, constants: &BTreeMap<String, bool>) -> bool {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse::<u128>().is_ok_and(u128::is_power_of_two),
            _ => false,
        },
        Expr::Path(path) => {
            let name = path.path.segments.last().map(|last| last.ident.to_string());
            name.is_some_and(|name| name == "BITS" || constants.get(&name) == Some(&true))
        }
        Expr::Binary(binary) => match binary.op {
            BinOp::Shl(_) | BinOp::Shr(_) => power_of_two(&binary.left, constants),
            BinOp::Mul(_) | BinOp::Div(_) => {
                power_of_two(&binary.left, constants) && power_of_two(&binary.right, constants)
            }
            _ => false,
        },
        Expr::Cast(cast) => power_of_two(&cast.expr, constants),
        Expr::Paren(paren) => power_of_two(&paren.expr, constants),
        _ => false,
    }
}

/// Reads one function.
struct Reading<'a> {
    function: &'a mut Function,
    constants: &'a BTreeMap<String, bool>,
}

impl Reading<'_> {
    /// A function by its name alone, called or given to another.
    fn named(&mut self, expression: &Expr) {
        if let Expr::Path(path) = expression
            && let Some(name) = path.path.get_ident()
        {
            self.function.calls.insert(Call::Path(None, name.to_string()));
        }
    }

    fn word(&mut self, word: &str) {
        if WORDS.contains(&word) {
            self.function.beyond.push(word.into());
        }
    }
}

impl<'ast> Visit<'ast> for Reading<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let is_shift = |of: &Expr| power_of_two(of, self.constants);
        let beyond = match binary.op {
            BinOp::Mul(_) | BinOp::MulAssign(_) => (!is_shift(&binary.left) && !is_shift(&binary.right)).then_some("*"),
            BinOp::Div(_) | BinOp::DivAssign(_) => (!is_shift(&binary.right)).then_some("/"),
            BinOp::Rem(_) | BinOp::RemAssign(_) => (!is_shift(&binary.right)).then_some("%"),
            _ => None,
        };
        self.function.beyond.extend(beyond.map(String::from));
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let name = call.method.to_string();
        let is_shift = |argument: &Expr| power_of_two(argument, self.constants);
        if name != "div_ceil" || !call.args.iter().all(is_shift) {
            self.word(&name);
        }
        self.function.calls.insert(Call::Method(name, 1 + call.args.len()));
        call.args.iter().for_each(|argument| self.named(argument));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.named(&call.func);
        call.args.iter().for_each(|argument| self.named(argument));
        visit::visit_expr_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        names.iter().for_each(|name| self.word(name));
        if let [.., before, name] = &names[..] {
            self.function.calls.insert(Call::Path(Some(before.clone()), name.clone()));
        }
        visit::visit_path(self, path);
    }

    fn visit_lit_float(&mut self, number: &'ast syn::LitFloat) {
        self.function.beyond.push(number.to_string());
    }

    /// A macro's words are known, and no more: each that stands before a bracket may be a call.
    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        let tokens = of.tokens.to_string();
        let ends = |c: char| !c.is_alphanumeric() && c != '_';
        for (at, _) in tokens.match_indices('(') {
            let name = tokens[..at].trim_end().rsplit(ends).next().unwrap_or_default().to_owned();
            self.word(&name);
            let with = (1..4).map(|arguments| Call::Method(name.clone(), arguments));
            self.function.calls.extend(with.chain([Call::Path(None, name.clone())]));
        }
    }

    // Constants are computed before any packet.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_type_array(&mut self, _: &'ast syn::TypeArray) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
}

/// All functions of the sources, without those of tests.
struct Functions<'a> {
    file: &'a str,
    knows: Rc<BTreeSet<String>>,
    constants: &'a BTreeMap<String, bool>,
    found: Vec<Function>,
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let of_test = |list: &syn::MetaList| list.path.is_ident("cfg") && list.tokens.to_string() == "test";
    attributes.iter().any(|attribute| attribute.meta.require_list().is_ok_and(of_test))
}

fn last(path: &syn::Path) -> Option<String> {
    path.segments.last().map(|last| last.ident.to_string())
}

impl Functions<'_> {
    fn add(
        &mut self,
        owner: Option<&String>,
        of_trait: Option<&String>,
        signature: &syn::Signature,
        body: &syn::Block,
    ) {
        let name = signature.ident.to_string();
        let (owner, of_trait) = (owner.cloned(), of_trait.cloned());
        let (file, knows) = (self.file.into(), self.knows.clone());
        let arguments = signature.inputs.len();
        let mut function = Function { file, arguments, owner, of_trait, name, knows, ..Function::default() };
        Reading { function: &mut function, constants: self.constants }.visit_block(body);
        self.found.push(function);
    }

    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Fn(function) if !is_test(&function.attrs) => {
                    self.add(None, None, &function.sig, &function.block);
                }
                Item::Impl(of) if !is_test(&of.attrs) => {
                    let owner = match &*of.self_ty {
                        syn::Type::Path(path) => last(&path.path),
                        _ => Some(String::new()),
                    };
                    let of_trait = of.trait_.as_ref().and_then(|(_, path, _)| last(path));
                    for item in &of.items {
                        if let ImplItem::Fn(function) = item {
                            self.add(owner.as_ref(), of_trait.as_ref(), &function.sig, &function.block);
                        }
                    }
                }
                Item::Trait(of) => {
                    let name = of.ident.to_string();
                    for item in &of.items {
                        if let TraitItem::Fn(syn::TraitItemFn { sig, default: Some(body), .. }) = item {
                            self.add(Some(&name), Some(&name), sig, body);
                        }
                    }
                }
                Item::Mod(of) if !is_test(&of.attrs) => {
                    self.items(of.content.as_ref().map_or(&[], |(_, items)| items));
                }
                _ => {}
            }
        }
    }
}

/// What a part of a file names: types, and what it imports.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }

    fn visit_use_name(&mut self, name: &'ast syn::UseName) {
        self.0.insert(name.ident.to_string());
    }

    fn visit_use_rename(&mut self, name: &'ast syn::UseRename) {
        self.0.extend([name.ident.to_string(), name.rename.to_string()]);
    }
}

/// By type, the names in its definition.
fn types(items: &[Item], known: &mut BTreeMap<String, BTreeSet<String>>) {
    for item in items {
        let mut names = Names::default();
        names.visit_item(item);
        let name = match item {
            Item::Struct(of) => &of.ident,
            Item::Enum(of) => &of.ident,
            Item::Type(of) => &of.ident,
            _ => continue,
        };
        known.entry(name.to_string()).or_default().extend(names.0);
    }
}

/// The types that a file defines or imports, those in their definitions, and so on.
fn known(items: &[Item], types: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut open = Names::default();
    for item in items {
        match item {
            Item::Use(_) => open.visit_item(item),
            Item::Struct(syn::ItemStruct { ident, .. }) | Item::Enum(syn::ItemEnum { ident, .. }) => {
                open.0.insert(ident.to_string());
            }
            Item::Type(_) | Item::Trait(_) => open.visit_item(item),
            _ => {}
        }
    }
    let mut open: Vec<_> = open.0.into_iter().collect();
    let mut all = BTreeSet::new();
    while let Some(name) = open.pop() {
        if all.insert(name.clone()) {
            open.extend(types.get(&name).into_iter().flatten().cloned());
        }
    }
    all
}

/// The constants of these items, and whether each is a power of two.
fn constants(items: &[Item], known: &mut BTreeMap<String, bool>) {
    for item in items {
        if let Item::Const(of) = item {
            let is_power = power_of_two(&of.expr, known);
            // Of two with one name the worse.
            known.entry(of.ident.to_string()).and_modify(|all| *all &= is_power).or_insert(is_power);
        }
    }
}

/// The functions that packets reach, with what of them no switch does. `others` have constants alone.
pub fn reached(sources: &[Source], others: &[Source]) -> BTreeMap<String, Vec<String>> {
    let parsed =
        |(file, text): &Source| (file.clone(), syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}")));
    let (sources, others): (Vec<_>, Vec<_>) =
        (sources.iter().map(parsed).collect(), others.iter().map(parsed).collect());
    let (mut powers, mut defined) = (BTreeMap::new(), BTreeMap::new());
    others.iter().chain(&sources).for_each(|(_, file)| constants(&file.items, &mut powers));
    sources.iter().for_each(|(_, file)| types(&file.items, &mut defined));
    let mut functions = Vec::new();
    for (file, parsed) in &sources {
        let knows = Rc::new(known(&parsed.items, &defined));
        let mut of_file = Functions { file, knows, constants: &powers, found: Vec::new() };
        of_file.items(&parsed.items);
        functions.extend(of_file.found);
    }
    let mut open: Vec<_> = functions.iter().filter(|function| function.begins()).collect();
    let mut reached = BTreeMap::new();
    while let Some(function) = open.pop() {
        if reached.insert(function.full_name(), function.beyond.clone()).is_none() {
            let is_called = |of: &&Function| {
                !of.is_apart_from(function) && function.calls.iter().any(|call| of.is_called(call, function))
            };
            open.extend(functions.iter().filter(is_called));
        }
    }
    reached
}
