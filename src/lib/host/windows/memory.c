/* Memory of the system's, and files in it. */
#include "system.h"

#include <sys/mman.h>

static void *map_file(size_t n, int may, int flags, int fd, int64_t offset) {
    bool writes = (may & PROT_WRITE) != 0, shared = (flags & MAP_SHARED) != 0;
    DWORD protect = !writes ? PAGE_READONLY : shared ? PAGE_READWRITE : PAGE_WRITECOPY;
    DWORD access = !writes ? FILE_MAP_READ : shared ? FILE_MAP_WRITE : FILE_MAP_COPY;
    HANDLE section = CreateFileMappingW(kt__win_handle(fd), NULL, protect, 0, 0, NULL);
    if (!section) return NULL;
    void *p = MapViewOfFile(section, access, (DWORD)(offset >> 32), (DWORD)offset, n);
    DWORD code = GetLastError();
    CloseHandle(section); /* the view keeps it */
    SetLastError(code);
    return p;
}

static DWORD protection_of(int may) {
    return may & PROT_WRITE ? PAGE_READWRITE : may & PROT_READ ? PAGE_READONLY : PAGE_NOACCESS;
}

void *kt__win_mmap(void *at, size_t n, int may, int flags, int fd, int64_t offset) {
    void *p = flags & MAP_ANONYMOUS
                  ? VirtualAlloc(at, n, MEM_RESERVE | MEM_COMMIT, protection_of(may))
                  : map_file(n, may, flags, fd, offset);
    if (p) return p;
    (void)kt__win_fail();
    return MAP_FAILED;
}

int kt__win_munmap(void *p, size_t n) {
    MEMORY_BASIC_INFORMATION info;
    (void)n;
    if (!VirtualQuery(p, &info, sizeof info)) return kt__win_fail();
    if (info.Type == MEM_MAPPED ? UnmapViewOfFile(p) : VirtualFree(p, 0, MEM_RELEASE)) return 0;
    return kt__win_fail();
}

int kt__win_mprotect(void *p, size_t n, int may) {
    DWORD before;
    return VirtualProtect(p, n, protection_of(may), &before) ? 0 : kt__win_fail();
}

/* Advice but for memory that is given back: reading it later must find zeros. */
int kt__win_madvise(void *p, size_t n, int advice) {
    if (advice == MADV_WILLNEED) {
        WIN32_MEMORY_RANGE_ENTRY range = {p, n};
        (void)PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
        return 0;
    }
    if (advice != MADV_DONTNEED) return 0;
    MEMORY_BASIC_INFORMATION info;
    if (!VirtualQuery(p, &info, sizeof info) || info.Type != MEM_PRIVATE) return 0;
    if (VirtualFree(p, n, MEM_DECOMMIT) && VirtualAlloc(p, n, MEM_COMMIT, info.Protect)) return 0;
    return kt__win_fail();
}

int kt__win_mincore(void *p, size_t n, unsigned char *present) {
    (void)p;
    (void)n;
    (void)present;
    errno = ENOSYS;
    return -1;
}

int kt__win_mlock(const void *p, size_t n) {
    SIZE_T least, most;
    HANDLE self = GetCurrentProcess();
    if (GetProcessWorkingSetSize(self, &least, &most))
        (void)SetProcessWorkingSetSize(self, least + n + 65536, most + n + 65536);
    return VirtualLock((void *)(uintptr_t)p, n) ? 0 : kt__win_fail();
}

int kt__win_munlock(const void *p, size_t n) {
    return VirtualUnlock((void *)(uintptr_t)p, n) ? 0 : kt__win_fail();
}

/* ---- aligned memory ---- */

/* The C library's free does not take what its aligned allocation gives: which pointers those are is kept in a
 * table. All of them are multiples of ALIGN, so that most others need no look at it. */
enum { ALIGN = 64, FEWEST = 256 };

static SRWLOCK aligned_lock = SRWLOCK_INIT;
static void **aligned; /* open addressing; NULL: free */
static size_t n_aligned, n_places;

static size_t place_of_pointer(const void *p) {
    return (size_t)((uintptr_t)p / ALIGN * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (n_places - 1);
}

static void insert_aligned(void *p) {
    size_t at = place_of_pointer(p);
    while (aligned[at]) at = (at + 1) & (n_places - 1);
    aligned[at] = p;
    n_aligned++;
}

/* With the lock. At least half of the places stay free. */
static bool make_room(void) {
    if (n_places && 2 * (n_aligned + 1) <= n_places) return true;
    void **old = aligned;
    size_t n_old = n_places, n_more = n_places ? 2 * n_places : FEWEST;
    void **more = calloc(n_more, sizeof *more);
    if (!more) return false;
    aligned = more;
    n_places = n_more;
    n_aligned = 0;
    for (size_t i = 0; i < n_old; i++)
        if (old[i]) insert_aligned(old[i]);
#undef free
    free(old);
    return true;
}

int kt__win_memalign(void **out, size_t align, size_t n) {
    void *p = _aligned_malloc(n, align < ALIGN ? ALIGN : align);
    if (!p) return ENOMEM;
    AcquireSRWLockExclusive(&aligned_lock);
    bool kept = make_room();
    if (kept) insert_aligned(p);
    ReleaseSRWLockExclusive(&aligned_lock);
    if (!kept) _aligned_free(p);
    *out = kept ? p : NULL;
    return kept ? 0 : ENOMEM;
}

/* What follows a place that becomes free moves up, so that no search ends before it. */
static void remove_at(size_t at) {
    for (size_t next = (at + 1) & (n_places - 1); aligned[next];
         next = (next + 1) & (n_places - 1)) {
        size_t home = place_of_pointer(aligned[next]);
        if (((next - home) & (n_places - 1)) < ((next - at) & (n_places - 1))) continue;
        aligned[at] = aligned[next];
        at = next;
    }
    aligned[at] = NULL;
    n_aligned--;
}

static bool take_aligned(void *p) {
    bool found = false;
    AcquireSRWLockExclusive(&aligned_lock);
    if (n_places) {
        size_t at = place_of_pointer(p);
        while (aligned[at] && aligned[at] != p) at = (at + 1) & (n_places - 1);
        found = aligned[at] == p;
        if (found) remove_at(at);
    }
    ReleaseSRWLockExclusive(&aligned_lock);
    return found;
}

void kt__win_free(void *p) {
    if (p && (uintptr_t)p % ALIGN == 0 && take_aligned(p))
        _aligned_free(p);
    else
        free(p);
}
