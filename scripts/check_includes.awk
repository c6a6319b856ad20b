# The include graph of src/, for scripts/check_includes.sh: reads scripts/rooms.txt, then every source file (-v mode=check or
# graph), or the lines of nm, of objects and their symbols (-v mode=calls).

function fail(message) {
    print message
    bad = 1
}

BEGIN {
    for (i = 2; i < ARGC; i++) {
        if (ARGV[i] !~ /^src\//) continue
        files[++n_files] = name_of(ARGV[i])
        exists[files[n_files]] = 1
        path_of[files[n_files]] = ARGV[i]
        half_of[room_of(files[n_files])] = ARGV[i] ~ /^src\/lib\// ? "lib" : "program"
    }
}

# ROOM/NAME of src/lib/ROOM/NAME, src/program/ROOM/NAME and src/program/server/ROOM/NAME
function name_of(path) {
    sub(/^src\/(lib|program\/server|program)\//, "", path)
    return path
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
    file = name_of(FILENAME)
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

table && /^allow / {
    n_allow++
    allow_from[n_allow] = glob($2)
    allow_to[n_allow] = glob($3)
}

table && /^circle / {
    n_circle++
    for (i = 2; i <= NF && $i ~ /\//; i++) in_circle[n_circle, $i] = 1
}

table { next }

# -- the source files

mode != "calls" && /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    to = quoted[2]
    if (to !~ /\//) to = room_of(file) "/" to
    n = ++n_include[file]
    include[file, n] = to
    include_line[file, n] = FNR
}

# -- objects: "PATH/kt_ROOM.dir/.../NAME.c.o: SYMBOL TYPE ...", as nm -A -P -g writes it

mode == "calls" {
    object = $1
    sub(/\.[cS]\.o:$/, "", object)
    room = object
    sub(/^.*\/kt_/, "", room)
    sub(/\.dir\/.*$/, "", room)
    sub(/^.*\//, "", object)
    if (!(room in is_room)) next # another program of the same objects
    object = room "/" object
    if ($3 == "U") {
        n_use++
        use_file[n_use] = object
        use_name[n_use] = $2
    } else if (!($2 in defined_in))
        defined_in[$2] = object
    next
}

# -- the graph

function room_of(f) { sub(/\/.*$/, "", f); return f }
function module_of(f) { sub(/\.[A-Za-z]+$/, "", f); return f }

function allowed(from, to,    i) {
    for (i = 1; i <= n_allow; i++)
        if (from ~ allow_from[i] && to ~ allow_to[i]) return 1
    return 0
}

function allowed_circle(from, to,    i) {
    for (i = 1; i <= n_circle; i++)
        if ((i, from) in in_circle && (i, to) in in_circle) return 1
    return 0
}

function add_arrow(from, to, where) {
    if (from == to || (from, to) in arrow || (mode == "calls" && allowed_circle(from, to))) return
    arrow[from, to] = where
    if (!(from in n_out)) nodes[++n_nodes] = from
    out[from, ++n_out[from]] = to
}

# the arrows of a module's file; what .inc and .def files include belongs to the file that includes them
function walk(owner, f, all,    i, to, where) {
    for (i = 1; i <= n_include[f]; i++) {
        to = include[f, i]
        if (!(to in exists) || (!all && allowed(f, to))) continue
        where = path_of[f] ":" include_line[f, i] ": includes \"" to "\""
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
        fail(path_of[f] ": room " room " is not in scripts/rooms.txt")
        return
    }
    for (i = 1; i <= n_include[f]; i++) {
        to = include[f, i]
        other = room_of(to)
        if (other == room || (room, other) in may || allowed(f, to)) continue
        fail(path_of[f] ":" include_line[f, i] ": includes \"" to "\", but " room " may include only:" is_room[room])
    }
}

# the library names no room of the program
function check_halves(    room, i, n, list) {
    for (room in is_room) {
        n = split(is_room[room], list, " ")
        for (i = 1; i <= n; i++)
            if (half_of[room] == "lib" && half_of[list[i]] == "program")
                fail("rooms.txt: " room " is of the library, and " list[i] " of the program")
    }
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
            if (to != "") add_arrow(use_file[i], to, use_file[i] " uses " use_name[i] " of " to)
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
        check_halves()
    }
    for (i = 1; i <= n_nodes; i++)
        if (!(nodes[i] in order)) visit(nodes[i])
    exit bad
}
