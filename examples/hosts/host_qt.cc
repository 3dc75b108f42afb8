/*
 * A Qt event loop drives the wheel, together with its own timers. One QTimer stands for all
 * timers of the wheel. The wake function queues a call to the loop's thread. This thread owns
 * the wheel: after it has armed timers, it calls armed(). Messages of other threads wake it.
 */
#include "compare.h"
#include <QCoreApplication>
#include <QTimer>
#include <thread>

static struct comparison comparison;

/* A wheel in the event loop of the thread that makes it. */
class Loop : public QObject {
public:
	Loop()
	{
		hwheel_options options = {};

		options.size = sizeof options;
		options.wake = [](hwheel *, void *self) {
			QMetaObject::invokeMethod(static_cast<Loop *>(self),
				[self] { static_cast<Loop *>(self)->poll(); },
				Qt::QueuedConnection);
		};
		options.wake_arg = this;
		options.owned = 1;
		if (hwheel_create(&options, &wheel))
			qFatal("hwheel_create");
		timer.setSingleShot(true);
		timer.setTimerType(Qt::PreciseTimer);
		timer.callOnTimeout([this] { poll(); });
		poll();
	}

	~Loop() { hwheel_destroy(wheel); }

	/* The loop's thread has armed timers: polls before the loop sleeps again. */
	void armed() { timer.start(0); }

	hwheel *wheel = nullptr;

private:
	void poll()
	{
		std::uint64_t next_ns = 0, now_ns = 0;

		if (compare_poll(&comparison, wheel, &next_ns))
			QCoreApplication::quit();
		hwheel_now(wheel, &now_ns);
		if (next_ns == HWHEEL_NEVER)
			timer.stop();
		else if (next_ns <= now_ns)
			timer.start(0);
		else /* in whole milliseconds; at most a day, and the wheel is polled again */
			timer.start(static_cast<int>(qMin<std::uint64_t>(86400000,
				(next_ns - now_ns + 999999) / 1000000)));
	}

	QTimer timer;
};

int main(int argc, char **argv)
{
	QCoreApplication app(argc, argv);
	Loop loop;

	compare_begin(&comparison, "Qt");
	comparison.loop.any_order = 1;
	comparison.to_arm = loop.wheel;
	for (unsigned i = 0; i < TIMERS; i++)
		QTimer::singleShot(static_cast<int>(comparison.delay_ms[i]), Qt::PreciseTimer, &app, [i] {
			if (compare_fired(&comparison, &comparison.loop, i))
				QCoreApplication::quit();
		});
	QTimer::singleShot(GIVE_UP_MS, &app, &QCoreApplication::quit);

	std::thread arms([] { compare_arm(&comparison); });

	app.exec();
	arms.join();
	return compare_end(&comparison);
}
