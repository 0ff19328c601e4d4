//! Expressions, fields and functions.

use super::check_value;

fn check_all(rows: &[(&str, &str)]) {
    for (expression, expect) in rows {
        check_value(expression, expect);
    }
}

#[test]
fn literals() {
    check_all(&[
        ("1.50", "1.5"),
        ("-3", "-3"),
        (r#""a \"b\" \\ \d""#, r#"a "b" \ \d"#),
        ("true and False", "false"),
        ("null", "-"),
        ("#tag/a", "#tag/a"),
        ("[1, \"a\", [2]]", "1, a, [2]"),
        ("{a: 1, \"b c\": 2}", "{ a: 1, b c: 2 }"),
        ("[[Dune]]", "[[Books/Dune.md|Dune]]"),
        ("[[Dune#Part|p]]", "[[Books/Dune.md#Part|p]]"),
        ("[[Nowhere]]", "[[Nowhere|Nowhere]]"),
        ("![[Dune]]", "![[Books/Dune.md|Dune]]"),
    ]);
}

#[test]
fn dates() {
    check_all(&[
        ("date(2025-09-01)", "2025-09-01"),
        ("date( 2025-09 )", "2025-09-01"),
        ("date(2025-09-01T07:05)", "2025-09-01 07:05"),
        ("date(2025-09-01T07:05Z)", "2025-09-01 09:05"),
        ("date(today)", "2025-09-03"),
        ("date(now)", "2025-09-03 12:30"),
        ("date(tomorrow)", "2025-09-04"),
        ("date(yesterday)", "2025-09-02"),
        ("date(sow)", "2025-09-01"),
        ("date(eow)", "2025-09-07 23:59"),
        ("date(som)", "2025-09-01"),
        ("date(eom)", "2025-09-30 23:59"),
        ("date(soy)", "2025-01-01"),
        ("date(end-of-year)", "2025-12-31 23:59"),
        ("date(\"2025-01-02\")", "2025-01-02"),
        ("date(\"soon\")", "-"),
        ("date(\"02.01.2025\", \"dd.MM.yyyy\")", "2025-01-02"),
        ("date([[2025-09-01]])", "2025-09-01"),
        ("date(published)", "1965-08-01"),
        ("date(today) + dur(1 month)", "2025-10-03"),
        ("date(2025-01-31) + dur(1 month)", "2025-02-28"),
        ("date(today) - dur(1 week, 1 day)", "2025-08-26"),
        ("date(today) - date(2025-08-01)", "1 month, 2 days"),
        ("(date(today) - date(2025-09-01)).days", "2"),
        ("date(today) - null", "-"),
        ("date(today).year + date(today).month", "2034"),
        ("date(today).weekday", "3"),
        ("date(today).weekyear", "36"),
        ("date(today) > date(2025-09-02) and date(today) <= date(2025-09-03)", "true"),
        ("striptime(date(now))", "2025-09-03"),
        ("dateformat(date(now), \"yyyy-MM-dd HH:mm\")", "2025-09-03 12:30"),
        ("dateformat(date(now), \"EEE, d MMMM yy 'at' h a\")", "Wed, 3 September 25 at 12 PM"),
        ("dateformat(date(today), \"kkkk-'W'WW o q\")", "2025-W36 246 3"),
    ]);
}

#[test]
fn durations() {
    check_all(&[
        ("dur(3 days)", "3 days"),
        ("dur(\"90 min\")", "1 hour, 30 minutes"),
        ("dur(\"x\")", "-"),
        ("dur(8 d)", "1 week, 1 day"),
        ("dur(1 d) + dur(2 h)", "1 day, 2 hours"),
        ("dur(1 d) * 3", "3 days"),
        ("dur(1 d) / 2", "0.5 days"),
        ("dur(2 h) = dur(120 min)", "true"),
        ("dur(1 w) > dur(6 d)", "true"),
        ("dur(36 h).days", "1.5"),
        ("took", "3 days"),
        ("typeof(took)", "duration"),
    ]);
}

#[test]
fn fields() {
    check_all(&[
        ("rating", "9"),
        ("genre-list", "scifi, epic"),
        ("row[\"Genre List\"]", "scifi, epic"),
        ("due-date", "2025-09-10"),
        ("row[\"Due Date\"]", "2025-09-10"),
        ("typeof(due-date)", "date"),
        ("typeof(published)", "date"),
        ("typeof(author)", "link"),
        ("mood", "dark, \"deep\""),
        ("meta.shelf", "A"),
        ("meta[\"rows\"][1]", "2"),
        ("meta.rows[5]", "-"),
        ("empty", "-"),
        ("nowhere.at.all", "-"),
        ("title[0]", "D"),
        ("this.focus", "scifi"),
        ("this.file.name", "Home"),
        ("[[Austen]].born", "1775"),
        ("[[Nowhere]].born", "-"),
        ("list([[Austen]], [[Herbert]]).born", "1775, 1920"),
        ("list(\"a\", [[Herbert]]).born", "1920"),
        ("file.name", "Dune"),
        ("file.path", "Books/Dune.md"),
        ("file.folder", "Books"),
        ("file.ext", "md"),
        ("file.link", "[[Books/Dune.md|Dune]]"),
        ("file.size", "113"),
        ("file.ctime", "2025-09-01 01:30"),
        ("file.cday", "2025-09-01"),
        ("file.mtime", "2025-09-02 10:15"),
        ("file.mday", "2025-09-02"),
        ("file.tags", "#book/scifi, #book, #classic"),
        ("file.etags", "#book/scifi, #classic"),
        ("file.inlinks", "[[Books/Emma.md|Emma]], [[Home.md|Home]], [[People/Herbert.md|Herbert]]"),
        ("file.outlinks", "[[People/Herbert.md|Herbert]]"),
        ("[[Austen]].file.aliases", "Jane"),
        ("[[2025-09-01]].file.day", "2025-09-01"),
        ("file.frontmatter.published", "1965-08-01"),
        ("typeof(file.frontmatter.published)", "string"),
        ("file.starred", "false"),
        ("file.day", "-"),
    ]);
}

#[test]
fn operators() {
    check_all(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 % 4 - 1 / 2", "2.5"),
        ("1/3", "0.3333333333333333"),
        ("1/0", "Infinity"),
        ("\"a\" + 1 + true", "a1true"),
        ("\"ab\" * 3", "ababab"),
        ("[1] + [2]", "1, 2"),
        ("{a: 1, b: 1} + {b: 2}", "{ a: 1, b: 2 }"),
        ("null + null", "-"),
        ("!rating", "false"),
        ("!(rating > 10) and read", "true"),
        ("null < 1", "true"),
        ("null = nowhere", "true"),
        ("rating != null", "true"),
        ("1 < \"a\"", "true"),
        ("\"a\" < \"B\"", "true"),
        ("\"B\" < \"a\"", "false"),
        ("\"a\" = \"A\"", "false"),
        ("\"é\" < \"f\"", "true"),
        ("[1, 2] < [1, 3]", "true"),
        ("{a: 1} = {a: 1}", "true"),
        ("author = [[Herbert]]", "true"),
        ("author = [[People/Herbert.md|x]]", "true"),
        ("author = [[Herbert#y]]", "false"),
        ("true or nowhere.x and false", "false"),
        ("1 = 1 | false", "true"),
    ]);
}

#[test]
fn lists() {
    check_all(&[
        ("length(genre-list)", "2"),
        ("length(title)", "4"),
        ("length(nowhere)", "0"),
        ("contains(genre-list, \"epic\")", "true"),
        ("contains(genre-list, \"ep\")", "true"),
        ("econtains(genre-list, \"ep\")", "false"),
        ("icontains(title, \"DU\")", "true"),
        ("contains(title, \"DU\")", "false"),
        ("contains(title, [\"D\", \"x\"])", "true, false"),
        ("contains({a: 1}, \"a\")", "true"),
        ("contains(nowhere, \"a\")", "false"),
        ("reverse([1, 2])", "2, 1"),
        ("sort([3, 1, 2])", "1, 2, 3"),
        ("sort([3, 1, 2], (x) => 0 - x)", "3, 2, 1"),
        ("unique([2, 1, 2])", "2, 1"),
        ("nonnull([1, null])", "1"),
        ("firstvalue([null, 2])", "2"),
        ("flat([1, [2, [3]]])", "1, 2, [3]"),
        ("flat([1, [2, [3]]], 5)", "1, 2, 3"),
        ("slice([1, 2, 3], 1)", "2, 3"),
        ("slice([1, 2, 3], -2, -1)", "2"),
        ("map([1, 2], (x) => x * rating)", "9, 18"),
        ("map([1], (x) => map([2], (y) => x + y))", "[3]"),
        ("filter([1, 2, 3], (x) => x > 1)", "2, 3"),
        ("any([0, 1])", "true"),
        ("all([1, 2], (x) => x > 1)", "false"),
        ("none([1, 2], (x) => x > 5)", "true"),
        ("sum([1, null, 2])", "3"),
        ("product([2, 3])", "6"),
        ("average([1, 2])", "1.5"),
        ("reduce([5, 2], \"-\")", "3"),
        ("reduce([1, 2, 3], (sum, x) => sum + x)", "6"),
        ("min([3, 1])", "1"),
        ("max(3, null, 7)", "7"),
        ("minby([3, 1, 2], (x) => 0 - x)", "3"),
        ("maxby([\"a\", \"bb\"], (x) => length(x))", "bb"),
        ("default(nowhere, 5)", "5"),
        ("default([1, null], 0)", "1, 0"),
        ("ldefault([null], 0)", "-"),
        ("choice(read, \"yes\", \"no\")", "yes"),
        ("extract(file, \"name\", \"ext\")", "{ name: Dune, ext: md }"),
        ("object(\"a\", 1).a", "1"),
        ("meta([[Dune#^b|x]]).subpath", "b"),
        ("meta([[Dune#^b|x]]).type", "block"),
    ]);
}

#[test]
fn numbers() {
    check_all(&[
        ("round(2.5)", "3"),
        ("round(-2.5)", "-2"),
        ("round(3.14159, 2)", "3.14"),
        ("round([1.2, 1.7])", "1, 2"),
        ("floor(1.9)", "1"),
        ("ceil(1.1)", "2"),
        ("trunc(-1.9)", "-1"),
        ("number(\"about -17.5 kg\")", "-17.5"),
        ("number(\"none\")", "-"),
    ]);
}

#[test]
fn texts() {
    check_all(&[
        ("lower(\"ÄB\")", "äb"),
        ("upper([\"a\", null])", "A, -"),
        ("startswith(title, \"Du\")", "true"),
        ("endswith(title, \"x\")", "false"),
        ("containsword(\"a Word here\", \"word\")", "true"),
        ("containsword(\"swords\", \"word\")", "false"),
        ("replace(\"aXbX\", \"X\", \"-\")", "a-b-"),
        ("split(\"a, b,c\", \",\\s*\")", "a, b, c"),
        ("length(split(\"a, b,c\", \",\\s*\"))", "3"),
        ("split(\"a b c\", \" \", 2)", "a, b"),
        ("join([1, 2], \"/\")", "1/2"),
        ("join(1)", "1"),
        ("padleft(\"7\", 3, \"0\")", "007"),
        ("padright(\"7\", 3) + \"|\"", "7  |"),
        ("substring(\"hello\", 1, 3)", "el"),
        ("substring(\"hello\", 3)", "lo"),
        ("truncate(\"hello world\", 8)", "hello..."),
        ("regexmatch(\"D.*\", title)", "true"),
        ("regexmatch(\"un\", title)", "false"),
        ("regextest(\"un\", title)", "true"),
        ("regexreplace(\"John Smith\", \"(\\w+) (\\w+)\", \"$2, $1 $$\")", "Smith, John $"),
        ("display([[Dune|the book]])", "the book"),
        ("elink(\"https://a.b\", \"c\")", "[c](https://a.b)"),
        ("link(\"Dune\", \"x\")", "[[Books/Dune.md|x]]"),
        ("embed(file.link)", "![[Books/Dune.md|Dune]]"),
        ("string(12) + string([1])", "121"),
        ("typeof([])", "array"),
    ]);
}
