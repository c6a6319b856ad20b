/* Libraries that are loaded when they are needed: ../process.c. */
void *kt__win_dlopen(const char *name, int flags);
void *kt__win_dlsym(void *library, const char *name);
int kt__win_dlclose(void *library);
char *kt__win_dlerror(void);
#define dlopen kt__win_dlopen
#define dlsym kt__win_dlsym
#define dlclose kt__win_dlclose
#define dlerror kt__win_dlerror
#define RTLD_NOW 1
#define RTLD_LOCAL 0
#define RTLD_GLOBAL 2
#define RTLD_NOLOAD 4
