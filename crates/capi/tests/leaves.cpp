// A callback that does not return: because of an exception, or because its thread exits. Either ends the
// process at once, like an uncaught exception. Arguments: a folder for keys, and `throw` for the exception.
#include <openuvr.h>

#include <cstring>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

static bool throws;

static void leave_callback(void *)
{
    if (throws)
        throw std::runtime_error("out of a callback");
    pthread_exit(nullptr);
}

int main(int argc, char **argv)
{
    const std::string folder = argc > 1 ? argv[1] : ".";
    const std::string keys = folder + "/host";
    static uint32_t pixels[64][64];
    throws = argc > 2 && std::strcmp(argv[2], "throw") == 0;

    openuvr_config config {};
    config.size = sizeof config;
    openuvr_config_default(&config);
    config.bind = "127.0.0.1:0";
    config.config_dir = keys.c_str();
    config.realtime = 0;
    openuvr_context *host = nullptr;
    if (openuvr_open(&config, &host, nullptr, 0) < 0 || openuvr_init_thread(host) < 0)
        return 2;
    openuvr_picture picture {};
    picture.size = sizeof picture;
    picture.format = OPENUVR_PIXEL_FORMAT_BGRX;
    picture.width = picture.height = 64;
    picture.data = pixels;
    picture.release = leave_callback;
    // While no MUD watches, one picture per second is accepted, and the library's thread releases the previous one;
    // this thread releases the pictures that are not accepted.
    for (int i = 0; i < 2000; i++) {
        if (openuvr_send_picture(host, &picture, 0) < 0)
            return 3;
        usleep(5000);
    }
    return 0;
}
