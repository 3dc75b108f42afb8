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
    /// Puts cbindgen's items into the template, as cbindgen sorts by kind and not by subject.
    /// Writes the result to `HWHEEL_HEADER`, or over the committed header.
    pub fn write() {
        println!("cargo:rerun-if-changed=src/capi");
        println!("cargo:rerun-if-changed=src/runtime/options.rs");
        println!("cargo:rerun-if-changed=src/runtime/stats.rs");
        println!("cargo:rerun-if-changed=cbindgen.toml");
        println!("cargo:rerun-if-env-changed=HWHEEL_HEADER");
        let to = std::env::var("HWHEEL_HEADER").unwrap_or_else(|_| "include/hwheel.h".to_owned());
        // Also if it was edited or removed.
        println!("cargo:rerun-if-changed={to}");
        let translated = translate();
        let mut items: Vec<_> = translated.trim().split("\n\n").map(item).collect();
        let mut header = String::new();
        for line in include_str!("src/capi/hwheel.h.in").lines() {
            match line.strip_prefix('@').and_then(|l| l.strip_suffix('@')) {
                None => header.push_str(line),
                Some(name) => {
                    let at = items.iter().position(|(_, code)| declares(code, name));
                    let at =
                        at.unwrap_or_else(|| panic!("the template names {name}, which is none"));
                    let (comment, code) = items.remove(at);
                    header.push_str(&(comment + &code));
                }
            }
            header.push('\n');
        }
        assert!(items.is_empty(), "the template lacks {items:?}");
        if std::fs::read(&to).ok().as_deref() != Some(header.as_bytes()) {
            std::fs::write(&to, header).expect("the header can be written");
        }
    }

    fn translate() -> String {
        let config = cbindgen::Config::from_file("cbindgen.toml").expect("it is readable");
        let mut text = Vec::new();
        cbindgen::Builder::new()
            .with_config(config)
            .with_src("src/capi/mod.rs")
            .with_src("src/runtime/options.rs")
            .with_src("src/runtime/stats.rs")
            .generate()
            .expect("src/capi is understood")
            .write(&mut text);
        let text = String::from_utf8(text).expect("source text is UTF-8");
        // The kernel's style, where cbindgen has no option for it.
        text.replace("struct hwheel * wheel", "struct hwheel *wheel")
            .replace("HWHEEL_MUST_CHECK int", "HWHEEL_MUST_CHECK\nint")
            .replace(
                "(*hwheel_fn)(struct hwheel *wheel, ",
                "(*hwheel_fn)(struct hwheel *wheel,\n\t\t\t  ",
            )
    }

    /// Whether code declares `f()`, `struct s`, or a macro or type of that name.
    fn declares(code: &str, name: &str) -> bool {
        let has = |text: String| code.contains(&text);
        match name.strip_suffix("()") {
            Some(f) => has(format!(" {f}(")) || has(format!("*{f}(")),
            None => ["#define @ ", "@ {", "@;", "(*@)"]
                .into_iter()
                .any(|text| has(text.replace('@', name))),
        }
    }

    /// The comment and the code of an item. Comments of the members of a struct move into the
    /// comment of the struct, as kernel-doc has them. Indentation becomes tabs.
    fn item(text: &str) -> (String, String) {
        let (comment, code) = text.split_once("\n */\n").expect("an item has a comment");
        let (mut members, mut tabbed, mut said) = (String::new(), Vec::new(), Vec::new());
        for line in code.lines() {
            let inner = line.trim_start();
            match inner.strip_prefix('*') {
                _ if inner == "/**" || inner == "*/" => {}
                Some(text) => said.push(text.trim()),
                None => {
                    let tabs = (line.len() - inner.len()) / 8;
                    tabbed.push("\t".repeat(tabs) + &line[8 * tabs..]);
                    let name = inner.split([' ', '[', ';']).nth(1).unwrap_or_default();
                    for (i, said) in said.drain(..).enumerate() {
                        members += &match i {
                            0 => {
                                format!("\n * @{name}: {}{}", said[..1].to_lowercase(), &said[1..])
                            }
                            _ => format!("\n *   {said}"),
                        };
                    }
                }
            }
        }
        let comment = match comment.strip_prefix("/**\n *") {
            Some(line) if !line.contains('\n') => format!("/**{line} */\n"),
            _ if members.is_empty() => format!("{comment}\n */\n"),
            _ => format!("{comment}\n *{members}\n */\n"),
        };
        (comment, tabbed.join("\n"))
    }
}
