/* The program's own malloc & co., mmap and munmap: they count, remember what is alive, and fail on
 * demand, also where a library below us allocates. Include it in one file of a test program.
 *
 * Calls made by the dynamic loader (a thread's storage, kept with its cached stack) are passed
 * through unseen. Under ThreadSanitizer nothing is replaced: HEAP_WATCHED says which. */
#ifndef KT_TESTS_HEAP_WATCH_H
#define KT_TESTS_HEAP_WATCH_H

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#if defined(__SANITIZE_THREAD__)
#define HEAP_WATCHED 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEAP_WATCHED 0
#endif
#endif
#ifndef HEAP_WATCHED
#define HEAP_WATCHED 1
#endif

enum { HEAP_SLOTS = 1 << 17 }; /* blocks alive at once: fewer */

typedef struct heap_block {
    void *p;
    size_t bytes;
    long serial;
    void *caller;
} heap_block;

typedef struct heap_state {
    atomic_flag lock;
    long n_calls;            /* seen while counting, by the thread that counts */
    long n_others;           /* by all others, never failed */
    long fail_from, fail_to; /* calls that fail, counted from 1; 0: none */
    long n_failed;
    long n_live;
    size_t live_bytes, peak_bytes;
    bool counting;
    bool suspended;  /* inside a library that asserts success */
    pthread_t owner; /* called heap_begin */
    heap_block blocks[HEAP_SLOTS];
} heap_state;

static heap_state heap;
static _Thread_local bool heap_counts;

/* Calls from now on are numbered from 1; those of [from, to] fail. */
static inline void heap_begin(long from, long to) {
    heap.n_calls = heap.n_others = heap.n_failed = 0;
    heap_counts = true;
    heap.fail_from = from;
    heap.fail_to = to;
    heap.peak_bytes = heap.live_bytes;
    heap.owner = pthread_self();
    heap.counting = true;
}

static inline void heap_end(void) {
    heap.counting = false;
    heap.fail_from = heap.fail_to = 0;
}

/* Who allocated what is still alive and was made after call number `after`. */
static inline void heap_print_live(long after) {
    for (int i = 0; i < HEAP_SLOTS; i++) {
        const heap_block *b = &heap.blocks[i];
        Dl_info info = {0};
        if (!b->p || b->p == (void *)1 || b->serial <= after) continue;
        dladdr(b->caller, &info);
        fprintf(stderr, "  alive: %zu bytes, call %ld, from %s %s+%#zx\n", b->bytes, b->serial,
                info.dli_fname ? info.dli_fname : "?", info.dli_sname ? info.dli_sname : "",
                (size_t)((char *)b->caller - (char *)info.dli_fbase));
    }
}

#if HEAP_WATCHED

/* They run before a sanitizer's library is ready. */
#define HEAP_PLAIN __attribute__((no_sanitize("address"))) __attribute__((no_sanitize("undefined")))

typedef struct heap_real {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void (*free)(void *);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
} heap_real;

static heap_real real_heap;
static bool heap_looking_up;
static char heap_boot[1 << 16]; /* serves dlsym, should it allocate */
static size_t heap_boot_used;

HEAP_PLAIN static void heap_find(void *to, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(to, &symbol, sizeof symbol);
}

HEAP_PLAIN static bool heap_ready(void) {
    if (real_heap.munmap) return true;
    if (heap_looking_up) return false;
    heap_looking_up = true;
    heap_find(&real_heap.malloc, "malloc");
    heap_find(&real_heap.calloc, "calloc");
    heap_find(&real_heap.realloc, "realloc");
    heap_find(&real_heap.posix_memalign, "posix_memalign");
    heap_find(&real_heap.aligned_alloc, "aligned_alloc");
    heap_find(&real_heap.free, "free");
    heap_find(&real_heap.mmap, "mmap");
    heap_find(&real_heap.munmap, "munmap");
    return true;
}

HEAP_PLAIN static void *heap_boot_take(size_t bytes) {
    size_t at = (heap_boot_used + 15) & ~(size_t)15;
    if (bytes > sizeof heap_boot - at) return NULL;
    heap_boot_used = at + bytes;
    return heap_boot + at;
}

HEAP_PLAIN static bool heap_is_boot(const void *p) {
    return (const char *)p >= heap_boot && (const char *)p < heap_boot + sizeof heap_boot;
}

/* The dynamic loader's code lies within this of its base. */
HEAP_PLAIN static bool heap_from_loader(const void *caller) {
    uintptr_t base = (uintptr_t)getauxval(AT_BASE), at = (uintptr_t)caller;
    return base && at >= base && at - base < 0x40000;
}

HEAP_PLAIN static void heap_lock(void) {
    while (atomic_flag_test_and_set_explicit(&heap.lock, memory_order_acquire)) {
    }
}
HEAP_PLAIN static void heap_unlock(void) {
    atomic_flag_clear_explicit(&heap.lock, memory_order_release);
}

HEAP_PLAIN static size_t heap_hash(const void *p) {
    return (size_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 20) % HEAP_SLOTS;
}

/* AddressSanitizer allocates in every thread it sees start, and ends the program when that fails:
 * there, only the watching thread's calls count. */
HEAP_PLAIN static bool heap_is_watched_thread(void) {
#if defined(__SANITIZE_ADDRESS__)
    return pthread_equal(heap.owner, pthread_self());
#else
    return true;
#endif
}

/* Numbers the call; false when it has to fail. */
HEAP_PLAIN static bool heap_enter(const void *caller, long *serial) {
    *serial = 0;
    if (!heap.counting || heap.suspended || heap_from_loader(caller)) return true;
    if (!heap_is_watched_thread()) return true;
    heap_lock();
    if (!heap_counts) {
        heap.n_others++;
        heap_unlock();
        return true;
    }
    *serial = ++heap.n_calls;
    bool fails = heap.fail_from && *serial >= heap.fail_from && *serial <= heap.fail_to;
    if (fails) heap.n_failed++;
    heap_unlock();
    if (fails) errno = ENOMEM;
    return !fails;
}

/* Blocks made while nothing is counted are not ours to follow. */
HEAP_PLAIN static void *heap_note(void *p, size_t bytes, long serial, void *caller) {
    if (!p || serial == 0) return p;
    heap_lock();
    size_t i = heap_hash(p);
    while (heap.blocks[i].p && heap.blocks[i].p != (void *)1) i = (i + 1) % HEAP_SLOTS;
    heap.blocks[i] = (heap_block){p, bytes, serial, caller};
    heap.n_live++;
    heap.live_bytes += bytes;
    if (heap.live_bytes > heap.peak_bytes) heap.peak_bytes = heap.live_bytes;
    heap_unlock();
    return p;
}

HEAP_PLAIN static void heap_forget(const void *p) {
    if (!p) return;
    heap_lock();
    for (size_t i = heap_hash(p); heap.blocks[i].p; i = (i + 1) % HEAP_SLOTS) {
        if (heap.blocks[i].p != p) continue;
        heap.blocks[i].p = (void *)1; /* a grave: the search goes on behind it */
        heap.n_live--;
        heap.live_bytes -= heap.blocks[i].bytes;
        break;
    }
    heap_unlock();
}

/* Between cycles, when nothing is alive: without the graves. */
HEAP_PLAIN static inline void heap_sweep(void) {
    if (heap.n_live == 0) memset(heap.blocks, 0, sizeof heap.blocks);
}

/* Visible to the shared libraries, whatever the build's default is. */
#define HEAP_EXPORT HEAP_PLAIN __attribute__((visibility("default")))
#define HEAP_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

HEAP_EXPORT void *malloc(size_t size) {
    long serial;
    if (!heap_ready()) return heap_boot_take(size);
    if (!heap_enter(HEAP_CALLER, &serial)) return NULL;
    return heap_note(real_heap.malloc(size), size, serial, HEAP_CALLER);
}

HEAP_EXPORT void *calloc(size_t count, size_t size) {
    long serial;
    if (!heap_ready()) return heap_boot_take(count * size);
    if (!heap_enter(HEAP_CALLER, &serial)) return NULL;
    return heap_note(real_heap.calloc(count, size), count * size, serial, HEAP_CALLER);
}

HEAP_EXPORT void *realloc(void *old, size_t size) {
    long serial;
    if (!heap_ready()) return NULL;
    if (!heap_enter(HEAP_CALLER, &serial)) return NULL;
    if (heap_is_boot(old)) return NULL;
    heap_forget(old);
    return heap_note(real_heap.realloc(old, size), size, serial, HEAP_CALLER);
}

HEAP_EXPORT int posix_memalign(void **out, size_t align, size_t size) {
    long serial;
    if (!heap_ready() || !heap_enter(HEAP_CALLER, &serial)) return ENOMEM;
    int rc = real_heap.posix_memalign(out, align, size);
    if (rc == 0) heap_note(*out, size, serial, HEAP_CALLER);
    return rc;
}

HEAP_EXPORT void *aligned_alloc(size_t align, size_t size) {
    long serial;
    if (!heap_ready() || !heap_enter(HEAP_CALLER, &serial)) return NULL;
    return heap_note(real_heap.aligned_alloc(align, size), size, serial, HEAP_CALLER);
}

HEAP_EXPORT void free(void *p) {
    if (!p || heap_is_boot(p) || !heap_ready()) return;
    heap_forget(p);
    real_heap.free(p);
}

/* Mappings count as calls and as live blocks, their address space not as bytes: it is reserved, not
 * used. */
HEAP_EXPORT void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) {
    long serial = 0;
    if (!heap_ready()) return MAP_FAILED;
    if (!(flags & MAP_FIXED) && !heap_enter(HEAP_CALLER, &serial)) return MAP_FAILED;
    void *p = real_heap.mmap(at, size, prot, flags, fd, offset);
    if (p != MAP_FAILED) heap_note(p, 0, serial, HEAP_CALLER);
    return p;
}

HEAP_EXPORT int munmap(void *p, size_t size) {
    if (!heap_ready()) return -1;
    heap_forget(p);
    return real_heap.munmap(p, size);
}

#else
static inline void heap_sweep(void) {}
#endif
#endif
