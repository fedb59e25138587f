// A program of somebody else: C++17, its own queue made with CL/opencl.hpp, tensors in std::vector,
// two threads on one context. test_install.sh compiles it against the library as it is installed.
#define CL_HPP_TARGET_OPENCL_VERSION  200
#define CL_HPP_MINIMUM_OPENCL_VERSION 200
#include <clprune/clprune.h>

#include <CL/opencl.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

struct Destroy {
    void operator()(clprune_context *c) const
    {
        clprune_context_destroy(c);
    }
    void operator()(clprune_saved *s) const
    {
        clprune_saved_destroy(s);
    }
};

void check(clprune_status status, const clprune_context *context)
{
    if (status != CLPRUNE_SUCCESS)
        throw std::runtime_error(
            std::string(clprune_status_name(status)) + ": " + clprune_last_error(context));
}

constexpr std::size_t batch = 4, rows = 5, in = 32, out = 8, tokens = batch * rows;

// With nothing pruned dw = dy^T * x.
void train(clprune_context *context, float scale, double &worst)
{
    std::vector<float> x(tokens * in), dy(tokens * out), dw(out * in);
    for (std::size_t i = 0; i < x.size(); i++)
        x[i] = scale * static_cast<float>(i % 7) - 1;
    for (std::size_t i = 0; i < dy.size(); i++)
        dy[i] = static_cast<float>(i % 5) - scale;
    clprune_keep keep{};
    keep.form = CLPRUNE_FORM_PRUNED;
    clprune_saved *made = nullptr;
    check(clprune_saved_create(context, "x", &keep, batch, rows, in, &made), context);
    const std::unique_ptr<clprune_saved, Destroy> saved(made);
    check(clprune_saved_store_host(saved.get(), 0, batch, x.data(), in), context);
    check(
        clprune_saved_product_tn_host(saved.get(), 0, batch, out, 0, dy.data(), out, dw.data(), in),
        context);
    for (std::size_t o = 0; o < out; o++)
        for (std::size_t i = 0; i < in; i++) {
            double want = 0;
            for (std::size_t t = 0; t < tokens; t++)
                want += double{dy[t * out + o]} * double{x[t * in + i]};
            worst = std::fmax(worst, std::fabs(want - double{dw[o * in + i]}));
        }
}

} // namespace

int main()
try {
    if (clprune_version() / 100 != CLPRUNE_VERSION_NUMBER / 100)
        throw std::runtime_error("the library is another version than its headers");
    const cl::Context cl(CL_DEVICE_TYPE_ALL);
    const cl::CommandQueue queue(cl, cl.getInfo<CL_CONTEXT_DEVICES>().front());
    clprune_context_options options{};
    options.thread_safe = 1;
    clprune_context *made = nullptr;
    check(clprune_context_create(queue(), &options, &made), nullptr);
    const std::unique_ptr<clprune_context, Destroy> context(made);
    double worst[2] = {0, 0};
    std::thread other([&] { train(context.get(), 0.5f, worst[0]); });
    train(context.get(), 0.25f, worst[1]);
    other.join();
    std::printf("largest errors: %g and %g\n", worst[0], worst[1]);
    return worst[0] < 1e-4 && worst[1] < 1e-4 ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
