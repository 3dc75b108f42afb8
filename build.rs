//! Refuses systems that the library does not run on, sets `checked` for either of
//! the model checkers, and writes the C header with the feature `header`. A plain
//! build needs no tool.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |cfg| std::env::var(format!("CARGO_CFG_TARGET_{cfg}")).unwrap_or_default();
    let linux = target("OS") == "linux" && matches!(&*target("ENV"), "gnu" | "musl");
    if !linux || target("POINTER_WIDTH") != "64" {
        // Here, not in the source: this is the only error then.
        println!("cargo::error=hwheel runs on 64-bit Linux only, with glibc or musl");
    }
    if ["LOOM", "SHUTTLE"]
        .iter()
        .any(|cfg| std::env::var_os(format!("CARGO_CFG_{cfg}")).is_some())
    {
        println!("cargo:rustc-cfg=checked");
    }
    #[cfg(feature = "header")]
    header::write();
}

#[cfg(feature = "header")]
mod header {
    use std::collections::BTreeMap;

    /// The kernel's: 80 columns, tabs of 8.
    const WIDTH: usize = 80;
    const TAB: usize = 8;

    /// Generates declarations and comments with cbindgen, puts them into the
    /// template, and writes the result to `HWHEEL_HEADER` or over the committed
    /// header. Every item has one place in the template.
    pub fn write() {
        println!("cargo:rerun-if-changed=src/capi");
        println!("cargo:rerun-if-changed=src/runtime/stats.rs");
        println!("cargo:rerun-if-changed=cbindgen.toml");
        println!("cargo:rerun-if-env-changed=HWHEEL_HEADER");
        let to = std::env::var("HWHEEL_HEADER").unwrap_or_else(|_| "include/hwheel.h".to_owned());
        // Also if it was edited or removed.
        println!("cargo:rerun-if-changed={to}");
        let mut items = items(&generate());
        let template = include_str!("src/capi/hwheel.h.in");
        let mut header = String::new();
        for line in template.lines() {
            match line.strip_prefix('@').and_then(|l| l.strip_suffix('@')) {
                None => header.push_str(line),
                Some(name) => header.push_str(
                    &items
                        .remove(name)
                        .unwrap_or_else(|| panic!("the template names {name}, which is none")),
                ),
            }
            header.push('\n');
        }
        let left: Vec<_> = items.keys().collect();
        assert!(left.is_empty(), "the template lacks {left:?}");
        if std::fs::read(&to).ok().as_deref() != Some(header.as_bytes()) {
            std::fs::write(&to, header).expect("the header can be written");
        }
    }

    fn generate() -> String {
        let config = cbindgen::Config::from_file("cbindgen.toml").expect("it is readable");
        let mut text = Vec::new();
        cbindgen::Builder::new()
            .with_config(config)
            .with_src("src/capi/mod.rs")
            .with_src("src/runtime/stats.rs")
            .generate()
            .expect("src/capi is understood")
            .write(&mut text);
        String::from_utf8(text).expect("source text is UTF-8")
    }

    /// The declarations of cbindgen's output, formatted, by name.
    fn items(text: &str) -> BTreeMap<String, String> {
        let mut items = BTreeMap::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (comment, code) = rest
                .strip_prefix("/*\n")
                .and_then(|begun| begun.split_once("\n */\n"))
                .expect("an item has a comment");
            let (code, more) = code.split_once("\n\n").unwrap_or((code, ""));
            let (members, code) = members(code);
            let code_of_item = format(code.trim_end());
            let comment = complete(&format!("{comment}{members}"), &code_of_item);
            let comment = kernel_doc(&comment);
            let had = items.insert(name(&code), comment + &code_of_item);
            assert!(had.is_none(), "{} is there twice", name(&code));
            rest = more.trim_start();
        }
        items
    }

    /// Turns the comments of the members of a struct into lines for the comment of the
    /// struct. Returns these lines, and the code without the comments.
    fn members(code: &str) -> (String, String) {
        let (mut lines, mut rest, mut text) = (String::new(), String::new(), Vec::new());
        let mut is_comment = false;
        for line in code.lines() {
            match line.trim() {
                "/*" => is_comment = true,
                "*/" => is_comment = false,
                inner if is_comment => text.extend(inner.split_whitespace()),
                declaration => {
                    rest.push_str(line);
                    rest.push('\n');
                    let mut words = declaration.split(|c: char| !c.is_alphanumeric() && c != '_');
                    if let (false, Some(name)) = (text.is_empty(), words.nth(1)) {
                        lines.push_str(&member(name, &std::mem::take(&mut text)));
                    }
                }
            }
        }
        let begin = if lines.is_empty() { "" } else { "\n" };
        (format!("{begin}{lines}"), rest)
    }

    /// `@name: text`, the second line and those that follow it indented.
    fn member(name: &str, words: &[&str]) -> String {
        let mut line = format!(" @{name}: {}", words[0].to_lowercase());
        let mut out = String::new();
        for word in &words[1..] {
            if line.len() + 1 + word.len() > WIDTH - 2 {
                out.push_str(&line);
                line = "\n  ".to_owned();
            }
            line.push(' ');
            line.push_str(word);
        }
        format!("\n{out}{line}")
    }

    /// `struct s`, `f()`, or the name of a macro or a type.
    fn name(code: &str) -> String {
        let words = |text: &str| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|w| !w.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if let Some(rest) = code.strip_prefix("#define ") {
            return words(rest)[0].clone();
        }
        if let Some(rest) = code.strip_prefix("typedef ") {
            return match rest.split_once("(*") {
                Some((_, function)) => words(function)[0].clone(),
                None => words(rest).pop().expect("it has a name"),
            };
        }
        match code.split_once('(') {
            Some((head, _)) => format!("{}()", words(head).pop().expect("it has a name")),
            None => format!("struct {}", words(code)[1]),
        }
    }

    /// Code as the kernel writes it.
    fn format(code: &str) -> String {
        if code.starts_with("#define") {
            return code.to_owned();
        }
        if code.contains('{') {
            return code.replace("\n  ", "\n\t");
        }
        let line = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line.replace("* wheel", "*wheel");
        if let Some(function) = line.strip_prefix("HWHEEL_MUST_CHECK ") {
            return format!("HWHEEL_MUST_CHECK\n{}", format(function));
        }
        let Some((head, parameters)) = line.rsplit_once('(') else {
            return line;
        };
        // Parameters stand below the first one where they do not fit.
        let mut out = format!("{head}(");
        let indent = out.len();
        let mut column = indent;
        for (i, parameter) in parameters.replace("( ", "(").split(", ").enumerate() {
            // With the comma behind it.
            if i > 0 && column + 2 + parameter.len() + 1 > WIDTH {
                let blanks = "\t".repeat(indent / TAB) + &" ".repeat(indent % TAB);
                out.push_str(&format!(",\n{blanks}"));
                column = indent;
            } else if i > 0 {
                out.push_str(", ");
                column += 2;
            }
            out.push_str(parameter);
            column += parameter.len();
        }
        out
    }

    /// The parameters that a function need not explain.
    const PARAMETERS: [&str; 13] = [
        "wheel: the wheel.",
        "timer: the timer.",
        "timers: array of @count timers; may be NULL if @count is 0.",
        "count: number of timers, at most 2147483647.",
        "key: the key, as in hwheel_key_set().",
        "key_len: number of bytes, 1 to 255.",
        "time_ns: delay in nanoseconds, or with HWHEEL_ABS a point on the wheel's
   clock. HWHEEL_NEVER is never.",
        "fn: the callback; NULL for an event.",
        "cookie: any value; the callback or the event receives it.",
        "flags: 0 or HWHEEL_ABS.",
        "events: receives events; may be NULL if @max is 0.",
        "max: number of events that @events has room for. With 0, all due timers
   fire, within the bounds of @run. The event of a timer without a callback is
   then discarded, and hwheel_stats.unclaimed counts it.",
        "run: bounds for this call; NULL for none.",
    ];

    /// Adds to the comment of a function the lines that are the same for most functions.
    fn complete(comment: &str, code: &str) -> String {
        let takes = |parameter: &str| code.contains(&format!("hwheel{parameter}"));
        if code.starts_with("typedef")
            || code.starts_with("void ")
            || !takes(" *wheel")
            || takes("_destroy(")
        {
            return comment.to_owned();
        }
        let (top, rest) = comment.split_once("\n\n").expect("a title and a text");
        let mut said = top.split("\n @");
        let mut lines: Vec<&str> = said.next().into_iter().collect();
        let said: Vec<&str> = said.chain(PARAMETERS).collect();
        for name in code.trim_end_matches([')', ';']).split(',') {
            let name = name.rsplit([' ', '*']).next().expect("a name");
            let is = |text: &&&str| text.split(':').next() == Some(name);
            let text = said.iter().find(is);
            lines.push(text.unwrap_or_else(|| panic!("{code} lacks @{name}")));
        }
        let top = lines.join("\n @");
        let mut lines: Vec<&str> = top.lines().chain([""]).chain(rest.lines()).collect();
        // Adds a line, unless there is one with the same beginning.
        let mut add = |begin: &str, at: &dyn Fn(&[&str]) -> usize, line: &'static str| {
            if !lines.iter().any(|l| l.starts_with(begin)) {
                let at = at(&lines);
                lines.insert(at, line);
            }
        };
        let after = |lines: &[&str], begin: &str| {
            let at = lines.iter().position(|l| l.starts_with(begin));
            let at = 1 + at.unwrap_or_else(|| panic!("{code} lacks {begin}"));
            at + lines[at..]
                .iter()
                .take_while(|l| l.starts_with("   "))
                .count()
        };
        let returns_end = |lines: &[&str]| {
            let at = after(lines, " Return:");
            at + lines[at..]
                .iter()
                .take_while(|l| !l.trim().is_empty())
                .count()
        };
        let first_error = |lines: &[&str]| {
            let error = lines.iter().position(|l| l.starts_with(" * -E"));
            error.unwrap_or_else(|| returns_end(lines))
        };
        add(" * -EINVAL", &first_error, " * -EINVAL - @wheel is NULL.");
        if takes("_timer_t timer") {
            let line = " * -ESTALE - the timer no longer exists.";
            add(" * -ESTALE", &|lines| after(lines, " * -EINVAL"), line);
        }
        let line = " * -ESHUTDOWN - this is a forked child.";
        add(" * -ESHUTDOWN", &returns_end, line);
        let line = "\n Context: any thread, also in a callback. Lock-free; calls no allocator.";
        add(" Context:", &|lines| lines.len(), line);
        lines.join("\n")
    }

    /// A comment as kernel-doc.
    fn kernel_doc(text: &str) -> String {
        if text.lines().count() == 1 {
            return format!("/**{text} */\n");
        }
        let mut out = "/**\n".to_owned();
        for line in text.lines() {
            out.push_str(format!(" *{line}").trim_end());
            out.push('\n');
        }
        out + " */\n"
    }
}
