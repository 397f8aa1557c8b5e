/* A program that does not link OpenGL looks up OpenGL functions, and prints the dynamic linker's results and
 * error messages. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    const char *names[] = { "glXSwapBuffers", "eglSwapBuffers", "XCloseDisplay", "no_such_function" };
    for (int i = 0; i < 4; i++) {
        dlerror();
        void *found = dlsym(RTLD_DEFAULT, names[i]);
        const char *why = dlerror();
        if (found || !why || !strstr(why, names[i]) || !strstr(why, "undefined symbol")) {
            fprintf(stderr, "symbols: %s is at %p: %s\n", names[i], found, why ? why : "no error");
            return 1;
        }
    }
    dlerror();
    return dlsym(RTLD_DEFAULT, "getpid") && !dlerror() ? 7 : 2;
}
