# The include graph of src/, for scripts/check_includes.sh: reads scripts/rooms.txt, then every source file.
# -v mode=check|graph|calls, -v prefix= what stands before ROOM/NAME in file names.

function fail(message) {
    print message
    bad = 1
}

BEGIN {
    for (i = 2; i < ARGC; i++) {
        files[++n_files] = substr(ARGV[i], length(prefix) + 1)
        exists[files[n_files]] = 1
    }
}

# -- the table of rooms

# turns * of the table into a regular expression
function glob(pattern) {
    gsub(/\./, "\\.", pattern)
    gsub(/\*/, ".*", pattern)
    return "^" pattern "$"
}

FNR == 1 {
    table = FILENAME ~ /rooms\.txt$/
    file = substr(FILENAME, length(prefix) + 1)
    in_comment = 0
    defining = ""
}

table && /^room / {
    split($0, half, ":")
    name = substr(half[1], 6)
    n = split(half[2], list, " ")
    for (i = 1; i <= n; i++) {
        may[name, list[i]] = 1
        if (!(list[i] in is_room)) fail("rooms.txt:" FNR ": " list[i] " does not stand above " name)
    }
    is_room[name] = half[2]
}

table && /^floor / {
    split($0, half, ":")
    n = split(half[2], list, " ")
    n_floor[$2]++
    for (i = 1; i <= n; i++) {
        n_pattern++
        pattern_room[n_pattern] = $2
        pattern_text[n_pattern] = list[i]
        pattern_floor[n_pattern] = n_floor[$2]
    }
}

table && /^allow / {
    n_allow++
    allow_from[n_allow] = glob($2)
    allow_to[n_allow] = glob($3)
}

table { next }

# -- the source files

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    to = quoted[2]
    if (to !~ /\//) to = room_of(file) "/" to
    n = ++n_include[file]
    include[file, n] = to
    include_line[file, n] = FNR
}

# The names that begin with kt_ and where functions and tables of these names are defined: only for mode=calls. Comments
# and strings are left out; definitions begin in the first column, as clang-format writes them.
mode == "calls" {
    text = $0
    gsub(/"([^"\\]|\\.)*"/, "", text)
    gsub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", text)
    if (in_comment) {
        if (text !~ /\*\//) next
        sub(/^.*\*\//, "", text)
        in_comment = 0
    }
    if (text ~ /\/\*/) {
        in_comment = 1
        sub(/\/\*.*$/, "", text)
    }
    if (text !~ /kt_/ && defining == "") next
    if (file !~ /\.[hd]/ && text ~ /^[A-Za-z]/ && text !~ /^(static|typedef|extern|goto)/ && match(text, /kt_[a-z0-9_]+(\(|(\[[^\]]*\])* =)/)) {
        defining = substr(text, RSTART, RLENGTH)
        sub(/[^a-z0-9_].*$/, "", defining)
    }
    if (defining != "" && text ~ /[{;]$/) {
        if (text ~ /\{$/ && !(defining in defined_in)) defined_in[defining] = file
        defining = ""
    }
    if (file ~ /\.h$/) next
    n = split(text, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++)
        if (word[i] ~ /^kt_/ && !((file, word[i]) in uses)) {
            uses[file, word[i]] = 1
            n_use++
            use_file[n_use] = file
            use_name[n_use] = word[i]
        }
}

# -- the graph

function room_of(f) { sub(/\/.*$/, "", f); return f }
function module_of(f) { sub(/\.[A-Za-z]+$/, "", f); return f }

function allowed(from, to,    i) {
    for (i = 1; i <= n_allow; i++)
        if (from ~ allow_from[i] && to ~ allow_to[i]) return 1
    return 0
}

function add_arrow(from, to, where) {
    if (from == to || (from, to) in arrow) return
    arrow[from, to] = where
    if (!(from in n_out)) nodes[++n_nodes] = from
    out[from, ++n_out[from]] = to
}

# the arrows of a module's file; what .inc and .def files include belongs to the file that includes them
function walk(owner, f, all,    i, to, where) {
    for (i = 1; i <= n_include[f]; i++) {
        to = include[f, i]
        if (!(to in exists) || (!all && allowed(f, to))) continue
        where = prefix f ":" include_line[f, i] ": includes \"" to "\""
        if (to ~ /\.(inc|def)$/) {
            if (!((owner, to) in walked)) {
                walked[owner, to] = 1
                walk(owner, to, all)
            }
        } else
            add_arrow(module_of(owner), module_of(to), where)
    }
}

function check_rooms(f,    i, to, room, other) {
    room = room_of(f)
    if (!(room in is_room)) {
        fail(prefix f ": room " room " is not in scripts/rooms.txt")
        return
    }
    for (i = 1; i <= n_include[f]; i++) {
        to = include[f, i]
        other = room_of(to)
        if (other == room || (room, other) in may || allowed(f, to)) continue
        fail(prefix f ":" include_line[f, i] ": includes \"" to "\", but " room " may include only:" is_room[room])
    }
}

# the floor a module stands on, from 1; a whole name goes before a pattern; 0: none
function floor_of(m,    i, found, room, name) {
    room = room_of(m)
    name = substr(m, length(room) + 2)
    for (i = 1; i <= n_pattern; i++) {
        if (pattern_room[i] != room) continue
        if (pattern_text[i] == name) return pattern_floor[i]
        if (!found && name ~ glob(pattern_text[i])) found = pattern_floor[i]
    }
    return found + 0
}

function check_floors(from, to,    a, b) {
    if (room_of(from) != room_of(to) || !n_floor[room_of(from)]) return
    a = floor_of(from)
    b = floor_of(to)
    if (!a) fail(arrow[from, to] ": " from " stands on no floor of scripts/rooms.txt")
    else if (!b) fail(arrow[from, to] ": " to " stands on no floor of scripts/rooms.txt")
    else if (a < b) fail(arrow[from, to] ": runs up from floor " a " to floor " b " of " room_of(from))
}

# Tarjan's strongly connected components
function visit(v,    i, w, n) {
    order[v] = low[v] = ++clock
    stack[++top] = v
    on_stack[v] = 1
    for (i = 1; i <= n_out[v]; i++) {
        w = out[v, i]
        if (!(w in order)) {
            visit(w)
            if (low[w] < low[v]) low[v] = low[w]
        } else if (on_stack[w] && order[w] < low[v])
            low[v] = order[w]
    }
    if (low[v] != order[v]) return
    n = 0
    do {
        w = stack[top--]
        on_stack[w] = 0
        component[w] = v
        member[++n] = w
    } while (w != v)
    if (n > 1) report_circle(n)
}

# the shortest circle through v within its component, by breadth; its length, the steps in circle[]
function shortest(v,    head, tail, i, u, w, n) {
    split("", parent)
    queue[tail = 1] = v
    for (head = 1; head <= tail; head++) {
        u = queue[head]
        for (i = 1; i <= n_out[u]; i++) {
            w = out[u, i]
            if (w == v) {
                for (n = 1; u != v; u = parent[u]) step[n++] = u
                step[n] = v
                for (i = 1; i <= n; i++) circle[i] = step[n + 1 - i]
                return n
            }
            if (component[w] != component[v] || w in parent) continue
            parent[w] = u
            queue[++tail] = w
        }
    }
    return 0
}

function report_circle(n,    i, length_, best, start, line) {
    for (i = 1; i <= n; i++) {
        line = line " " member[i]
        length_ = shortest(member[i])
        if (!best || length_ < best) {
            best = length_
            start = member[i]
        }
    }
    fail("circle of " n " modules:" line)
    best = shortest(start)
    for (i = 1; i <= best; i++) print "    " arrow[circle[i], circle[i % best + 1]]
}

END {
    if (mode == "calls")
        for (i = 1; i <= n_use; i++) {
            to = defined_in[use_name[i]]
            if (to != "") add_arrow(module_of(use_file[i]), module_of(to), prefix use_file[i] ": uses " use_name[i] " of " to)
        }
    else
        for (i = 1; i <= n_files; i++)
            if (files[i] ~ /\.[ch]$/) walk(files[i], files[i], mode == "graph")
    if (mode == "graph") {
        for (i = 1; i <= n_nodes; i++)
            for (j = 1; j <= n_out[nodes[i]]; j++) print nodes[i] " -> " out[nodes[i], j]
        exit 0
    }
    if (mode == "check") {
        for (i = 1; i <= n_files; i++) check_rooms(files[i])
        for (i = 1; i <= n_nodes; i++)
            for (j = 1; j <= n_out[nodes[i]]; j++) check_floors(nodes[i], out[nodes[i], j])
    }
    for (i = 1; i <= n_nodes; i++)
        if (!(nodes[i] in order)) visit(nodes[i])
    exit bad
}
