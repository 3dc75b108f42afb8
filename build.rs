//! Writes the C header, when asked to by the feature `header`, and says
//! `checked` for either of the model checkers; a plain build does nothing here
//! and needs no tool.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
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
    /// Generates the header with cbindgen and writes it to `HWHEEL_HEADER`, or
    /// over the committed one.
    pub fn write() {
        println!("cargo:rerun-if-changed=src/capi.rs");
        println!("cargo:rerun-if-changed=cbindgen.toml");
        println!("cargo:rerun-if-env-changed=HWHEEL_HEADER");
        let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        let to =
            std::env::var("HWHEEL_HEADER").unwrap_or_else(|_| format!("{here}/include/hwheel.h"));
        let config = cbindgen::Config::from_file(format!("{here}/cbindgen.toml"))
            .expect("cbindgen.toml is readable");
        let mut text = Vec::new();
        cbindgen::Builder::new()
            .with_src(format!("{here}/src/capi.rs"))
            .with_config(config)
            .generate()
            .expect("src/capi.rs is understood")
            .write(&mut text);
        let text = String::from_utf8(text).expect("source text is UTF-8");
        std::fs::write(&to, kernel_doc(&text)).expect("the header can be written");
    }

    /// Turns cbindgen's comments into kernel-doc, and leaves out the sections
    /// that are for Rust readers.
    fn kernel_doc(text: &str) -> String {
        let mut out = String::new();
        let mut comment: Option<Vec<&str>> = None;
        for line in text.lines() {
            match &mut comment {
                // The file's own comment comes with its stars.
                None if line == "/*" && !out.is_empty() => comment = Some(Vec::new()),
                None => {
                    let code = line.replace(" // __cplusplus", " /* __cplusplus */");
                    out.push_str(&code);
                    out.push('\n');
                }
                Some(lines) if line == " */" => {
                    write_comment(&mut out, lines);
                    comment = None;
                }
                Some(lines) => lines.push(line),
            }
        }
        out
    }

    fn write_comment(out: &mut String, lines: &[&str]) {
        let end = lines
            .iter()
            .position(|l| l.trim() == "# Safety")
            .unwrap_or(lines.len());
        let mut lines = &lines[..end];
        while lines.last().is_some_and(|l| l.trim().is_empty()) {
            lines = &lines[..lines.len() - 1];
        }
        if let [line] = lines {
            out.push_str(&format!("/**{line} */\n"));
            return;
        }
        out.push_str("/**\n");
        for line in lines {
            out.push_str(format!(" *{line}").trim_end());
            out.push('\n');
        }
        out.push_str(" */\n");
    }
}
