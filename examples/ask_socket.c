/* A prompt to a running `kentang serve` over its Unix socket, streamed: prints the lines that come.
 * Needs nothing of kentang. usage: ask_socket SOCKET PROMPT (a text without quotes and backslashes)
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int main(int argc, char **argv) {
    char line[65536];
    if (argc != 3 || strpbrk(argv[2], "\"\\")) {
        fprintf(stderr, "usage: ask_socket SOCKET PROMPT\n");
        return 2;
    }
    int fd = connect_to(argv[1]);
    FILE *lines = fd >= 0 ? fdopen(fd, "r+") : NULL;
    if (!lines) {
        perror(argv[1]);
        return 1;
    }
    fprintf(lines, "{\"prompt\":\"%s\",\"stream\":true,\"max_tokens\":100}\n", argv[2]);
    fflush(lines);
    while (fgets(line, sizeof line, lines)) {
        fputs(line, stdout);
        if (strstr(line, "\"done\":true")) break;
    }
    fclose(lines);
    return 0;
}
