/* Processes that are started. */
#include "system.h"

typedef struct text {
    wchar_t *data;
    size_t n, room;
} text;

static bool put_char(text *t, wchar_t c) {
    if (t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 256;
        wchar_t *data = realloc(t->data, room * sizeof *data);
        if (!data) return false;
        t->data = data;
        t->room = room;
    }
    t->data[t->n++] = c;
    return true;
}

static bool put_times(text *t, wchar_t c, size_t n) {
    for (; n; n--)
        if (!put_char(t, c)) return false;
    return true;
}

/* So that CommandLineToArgvW, and the C library of what is started, read the same words again. */
static bool put_word(text *t, const wchar_t *word) {
    bool ok = put_char(t, L'"');
    for (; ok && *word; word++) {
        size_t slashes = 0;
        while (*word == L'\\') slashes++, word++;
        bool quote = !*word || *word == L'"';
        ok = put_times(t, L'\\', quote ? 2 * slashes : slashes);
        if (!*word) break;
        if (*word == L'"') ok = ok && put_char(t, L'\\');
        ok = ok && put_char(t, *word);
    }
    return ok && put_char(t, L'"');
}

static wchar_t *make_line(char *const *argv) {
    text line = {0};
    bool ok = true;
    for (size_t i = 0; argv[i] && ok; i++) {
        wchar_t *word = kt__win_wide(argv[i]);
        ok = word && (!i || put_char(&line, L' ')) && put_word(&line, word);
        free(word);
    }
    if (ok && put_char(&line, L'\0')) return line.data;
    free(line.data);
    return NULL;
}

static wchar_t *make_block(char *const *env) {
    text block = {0};
    bool ok = true;
    for (size_t i = 0; env[i] && ok; i++) {
        wchar_t *entry = kt__win_wide(env[i]);
        for (const wchar_t *c = entry; ok && c && *c; c++) ok = put_char(&block, *c);
        ok = ok && entry && put_char(&block, L'\0');
        free(entry);
    }
    ok = ok && (block.n || put_char(&block, L'\0')) && put_char(&block, L'\0');
    if (ok) return block.data;
    free(block.data);
    return NULL;
}

/* What is in it ends with the handle, which is this process's alone: so it ends with this process, too. */
static HANDLE make_job(uint64_t mem_bytes) {
    HANDLE job = CreateJobObjectW(NULL, NULL);
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    if (mem_bytes) {
        limits.BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
        limits.JobMemoryLimit = (SIZE_T)mem_bytes;
    }
    if (job)
        (void)SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits,
                                      sizeof limits);
    return job;
}

typedef struct start {
    STARTUPINFOEXW info;
    HANDLE ends[3];
    wchar_t *program, *line, *block, *cwd;
} start;

static bool inherit_ends(start *s, const int fds[3]) {
    SIZE_T size = 0;
    for (int i = 0; i < 3; i++) {
        HANDLE from = kt__win_handle(fds[i]), self = GetCurrentProcess();
        if (!DuplicateHandle(self, from, self, &s->ends[i], 0, TRUE, DUPLICATE_SAME_ACCESS))
            return false;
    }
    InitializeProcThreadAttributeList(NULL, 1, 0, &size);
    s->info.lpAttributeList = malloc(size);
    if (!s->info.lpAttributeList) return false;
    if (!InitializeProcThreadAttributeList(s->info.lpAttributeList, 1, 0, &size)) return false;
    s->info.StartupInfo.cb = sizeof s->info;
    s->info.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
    s->info.StartupInfo.hStdInput = s->ends[0];
    s->info.StartupInfo.hStdOutput = s->ends[1];
    s->info.StartupInfo.hStdError = s->ends[2];
    return UpdateProcThreadAttribute(s->info.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
                                     s->ends, sizeof s->ends, NULL, NULL);
}

static int create_process(start *s, HANDLE job, kt__win_process *out) {
    PROCESS_INFORMATION made;
    DWORD flags = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | CREATE_UNICODE_ENVIRONMENT |
                  EXTENDED_STARTUPINFO_PRESENT;
    if (!GetConsoleWindow()) flags |= CREATE_NO_WINDOW;
    if (!CreateProcessW(s->program, s->line, NULL, NULL, TRUE, flags, s->block, s->cwd,
                        &s->info.StartupInfo, &made)) {
        (void)kt__win_fail();
        return errno;
    }
    (void)AssignProcessToJobObject(job, made.hProcess);
    (void)ResumeThread(made.hThread);
    CloseHandle(made.hThread);
    *out = (kt__win_process){made.hProcess, job, (int)made.dwProcessId};
    return 0;
}

int kt__win_spawn(const char *program, char *const *argv, char *const *env, const char *cwd,
                  const int fds[3], uint64_t mem_bytes, kt__win_process *out) {
    start s = {0};
    HANDLE job = make_job(mem_bytes);
    *out = (kt__win_process){0};
    s.program = kt__win_path(program);
    s.line = make_line(argv);
    s.block = env ? make_block(env) : NULL;
    s.cwd = cwd ? kt__win_path(cwd) : NULL;
    int rc = ENOMEM;
    if (job && s.program && s.line && (s.block || !env) && (s.cwd || !cwd) && inherit_ends(&s, fds))
        rc = create_process(&s, job, out);
    if (rc && job) CloseHandle(job);
    for (int i = 0; i < 3; i++)
        if (s.ends[i]) CloseHandle(s.ends[i]);
    if (s.info.lpAttributeList) DeleteProcThreadAttributeList(s.info.lpAttributeList);
    free(s.info.lpAttributeList);
    free(s.program);
    free(s.line);
    free(s.block);
    free(s.cwd);
    return rc;
}

bool kt__win_process_wait(const kt__win_process *p, int ms, int *code) {
    DWORD status = 0;
    if (WaitForSingleObject(p->process, ms < 0 ? INFINITE : (DWORD)ms) != WAIT_OBJECT_0)
        return false;
    (void)GetExitCodeProcess(p->process, &status);
    if (code) *code = (int)status;
    return true;
}

void kt__win_process_end(kt__win_process *p) {
    if (p->job) {
        (void)TerminateJobObject(p->job, 128 + SIGKILL);
        CloseHandle(p->job);
    }
    if (p->process) {
        (void)WaitForSingleObject(p->process, 5000);
        CloseHandle(p->process);
    }
    *p = (kt__win_process){0};
}
