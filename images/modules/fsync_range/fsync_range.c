// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/fsync_range: fsync_range(2) for a stock kernel.
 *
 * Linux has no system call that syncs a range of a file with the promise of
 * fsync or fdatasync: sync_file_range(2) neither writes metadata nor flushes the
 * drive. The kernel has the function, though. vfs_fsync_range() is what O_DSYNC
 * writes and the NFS server use, and it is exported. This module gives it to
 * programs, by one ioctl on a device.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "fsync_range.h"

static long fsync_range_ioctl(struct file *dev, unsigned int cmd, unsigned long arg)
{
	struct fsync_range r;
	struct file *file;
	loff_t end = LLONG_MAX;	/* the last byte, as vfs_fsync_range() takes it */
	int err;

	if (cmd != FSYNC_RANGE)
		return -ENOTTY;
	if (copy_from_user(&r, (void __user *)arg, sizeof(r)))
		return -EFAULT;
	if (r.datasync > 1 || r.start > LLONG_MAX || r.length > LLONG_MAX - r.start)
		return -EINVAL;
	if (r.length)
		end = r.start + r.length - 1;

	file = fget(r.fd);
	if (!file)
		return -EBADF;
	err = vfs_fsync_range(file, r.start, end, r.datasync);
	fput(file);
	return err;
}

static const struct file_operations fsync_range_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= fsync_range_ioctl,
	.llseek		= noop_llseek,
};

static struct miscdevice fsync_range_dev = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "fsync_range",
	.fops	= &fsync_range_fops,
	.mode	= 0666,
};
module_misc_device(fsync_range_dev);

MODULE_DESCRIPTION("fsync_range(2) as an ioctl");
MODULE_LICENSE("GPL");
